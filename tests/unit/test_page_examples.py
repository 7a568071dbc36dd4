"""Jobs on the pages are valid, and commands are ones that tftj takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml
from tftraining import manifest
from tftraining.cli.app import app
from tftraining_operator.api import keys
from tftraining_operator.api.types import Spec, Strategy
from tftraining_operator.core import desired
from tftraining_operator.core.merge import merge

from tests.unit.strictness import unknown_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
YAML = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?: {4})?(tftj .*)$", re.MULTILINE)
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def jobs() -> Iterator[Any]:
    for page in PAGES:
        for _, block in YAML.findall(page.read_text()):
            if f"kind: {keys.KIND}\n" not in block or re.search(r"^ *\.\.\.$", block, re.MULTILINE):
                continue
            for raw in yaml.safe_load_all(block):
                if raw["kind"] == keys.KIND:
                    yield pytest.param(raw, id=f"{page.relative_to(ROOT)}, {raw['metadata']}")


@pytest.mark.parametrize("raw", list(jobs()))
def test_a_job_on_a_page_is_one_that_the_api_server_takes(raw: dict[str, Any]) -> None:
    job = manifest.job_of(raw, "the page", uid="uid-1")
    for pod in desired.samples(job, "tftraining/trainer:0.1.0"):
        assert unknown_fields("Pod", pod) == []


def parts() -> Iterator[Any]:
    """Yield the jobs of which a page shows some fields, below `spec` or from there on."""
    fields = {*Spec.model_json_schema(by_alias=True)["properties"], "args"}
    for page in PAGES:
        for _, block in YAML.findall(page.read_text()):
            if "kind:" in block:
                continue
            shown = yaml.safe_load(re.sub(r"^ *\.\.\.$", "", dedent(block), flags=re.MULTILINE))
            given = shown.get("spec", shown) if isinstance(shown, dict) else {}
            if not given or not given.keys() <= fields:
                continue
            arguments = given.pop("args", [])
            container = {"name": keys.CONTAINER, "args": arguments}
            base: dict[str, Any] = {"template": {"spec": {"containers": [container]}}}
            if given.get("strategy") != Strategy.MIRRORED:
                base |= {"worker": {}, "ps": {}}
            yield pytest.param(merge(base, given), id=f"{page.relative_to(ROOT)}, {list(given)}")


@pytest.mark.parametrize("spec", list(parts()))
def test_a_part_of_a_job_on_a_page_is_one_that_the_api_server_takes(spec: dict[str, Any]) -> None:
    raw = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": {"name": "x"}}
    job = manifest.job_of({**raw, "spec": spec}, "the page", uid="uid-1")
    for pod in desired.samples(job, "tftraining/trainer:0.1.0"):
        assert unknown_fields("Pod", pod) == []


def commands() -> Iterator[Any]:
    for page in PAGES:
        for line in COMMAND.findall(page.read_text()):
            command = re.split(r" [>|&]", line)[0]
            yield pytest.param(
                shlex.split(command, comments=True)[1:], id=f"{page.relative_to(ROOT)}, {command}"
            )


@pytest.mark.parametrize("arguments", list(commands()))
def test_a_command_on_a_page_is_one_that_tftj_takes(arguments: list[str]) -> None:
    name, *rest = arguments
    with COMMANDS[name].make_context(name, [each for each in rest if each != "…"]) as context:
        assert context.params


def test_the_pages_have_jobs_and_commands() -> None:
    assert len(list(jobs())) >= 5
    assert len(list(parts())) >= 10
    assert len(list(commands())) > 30
