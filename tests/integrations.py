"""The jobs in the manifests of other products, in examples/integrations."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "examples/integrations"
NAMES = ("argo-workflow", "katib-experiment", "kueue")
_VALUES = {"{{inputs.parameters.epochs}}": "3", "${trialParameters.batchSize}": "64"}

Raw = dict[str, Any]


def outer(name: str) -> Raw:
    """Return the manifest of another product; of Kueue, the job itself."""
    found: Raw = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def inner(name: str) -> Raw:
    """Return the job as it reaches the API server: with a name, and with values for parameters."""
    found = outer(name)
    if name == "argo-workflow":
        (template,) = found["spec"]["templates"]
        return _filled(template["resource"]["manifest"])
    if name == "katib-experiment":
        trial = found["spec"]["trialTemplate"]["trialSpec"]
        return {**_filled(yaml.safe_dump(trial)), "metadata": {"name": "digits-5hg9cklx"}}
    return found


def step(name: str) -> str:
    """Return the source of a component of the pipeline, as Kubeflow sends it: without decorator."""
    module = ast.parse((FOLDER / "kubeflow_pipeline.py").read_text())
    (found,) = (
        each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == name
    )
    found.decorator_list = []
    return ast.unparse(found)


def _filled(text: str) -> Raw:
    for parameter, value in _VALUES.items():
        text = text.replace(parameter, value)
    assert "{{" not in text
    assert "${" not in text
    found: Raw = yaml.safe_load(text)
    return found
