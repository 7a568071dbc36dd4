"""What `tftj submit` was given: a manifest, or Python code, as a plan of what to send."""

from pathlib import Path
from typing import Any

from tftraining import code, manifest, yaml_text
from tftraining.code import Wanted
from tftraining.errors import InputError
from tftraining.submission import Plan, plan_of

_Object = dict[str, Any]

_OPTIONS = {
    "strategy": "--strategy",
    "workers": "--workers",
    "ps": "--ps",
    "evaluator": "--evaluator",
    "claim": "--checkpoint",
    "image": "--image",
    "variables": "--env",
    "arguments": "arguments after --",
}
"""Options that only say something about a job made of code."""


def plan(source: str, task: str | None, wanted: Wanted) -> Plan:
    """Read a source and return what to send. Raises InputError."""
    path = path_of(source)
    if source != manifest.STDIN and not path.exists():
        raise InputError(f"{source}: no such file or folder")
    if path.is_dir() or path.suffix == ".py":
        config_map, job = code.manifests(code.read(path, task), wanted)
        return Plan(job, [config_map], owned=True)
    defaults = Wanted()
    given = [
        o for field, o in _OPTIONS.items() if getattr(wanted, field) != getattr(defaults, field)
    ]
    given += ["--task"] if task is not None else []
    if given:
        raise InputError(f"{given[0]}: only for a job made of Python code; change {source} instead")
    documents = list(manifest.documents(manifest.read(source), source))
    return plan_of(documents, source, wanted.name)


def path_of(source: str) -> Path:
    """Return the path that was given. Raises InputError for "", which would be this folder."""
    if not source:
        raise InputError("the name of the file or folder is empty")
    return Path(source)


def as_yaml(plan: Plan, namespace: str | None = None) -> str:
    """Return the documents of a plan as a file that can be applied.

    Those that are made here name the namespace that was asked for.
    """
    documents = [*plan.others, plan.job]
    if plan.owned and namespace:
        documents = [
            {**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in documents
        ]
    return yaml_text.dumped(documents)
