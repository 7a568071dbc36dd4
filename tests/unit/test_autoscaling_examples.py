"""The manifests of examples/autoscaling fit the job, the trainer's metrics and their page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tftraining_operator.api import keys
from tftraining_operator.core.policies.membership import JOINS_AFTER

from tools import custom_metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/autoscaling"
METRICS = ROOT / "trainer_image/tftrainer/runtime/http_server.py"
PAGE = ROOT / "docs/guide/autoscaling.md"

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def autoscaler() -> Raw:
    found: Raw = yaml.safe_load((FOLDER / "hpa.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def rules() -> list[Raw]:
    found: list[Raw] = custom_metrics.rules()["rules"]
    return found


def served(rule: Raw) -> str:
    """Return the name under which the adapter serves a rule's metric."""
    return str(rule.get("name", {}).get("as") or rule["seriesQuery"].partition("{")[0])


def test_the_autoscaler_scales_the_job_of_the_main_example(autoscaler: Raw) -> None:
    job = next(
        each
        for each in yaml.safe_load_all((ROOT / "examples/mnist.yaml").read_text())
        if each["kind"] == keys.KIND
    )
    spec = autoscaler["spec"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "name": job["metadata"]["name"],
    }
    assert spec["minReplicas"] <= job["spec"]["worker"]["replicas"] <= spec["maxReplicas"]


def test_the_autoscaler_asks_for_a_metric_of_the_rules(autoscaler: Raw, rules: list[Raw]) -> None:
    (metric,) = autoscaler["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in [served(rule) for rule in rules]


def test_the_trainer_exports_what_the_rules_read(rules: list[Raw]) -> None:
    exported = METRICS.read_text()
    for rule in rules:
        assert f'"{rule["seriesQuery"].partition("{")[0]}"' in exported


def test_changes_are_further_apart_than_the_operator_joins_them(autoscaler: Raw) -> None:
    for change in autoscaler["spec"]["behavior"].values():
        assert change["stabilizationWindowSeconds"] > JOINS_AFTER.total_seconds()


def test_the_page_shows_both_as_they_are(autoscaler: Raw, rules: list[Raw]) -> None:
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    rule, shown = (yaml.safe_load(block) for block in blocks)
    assert rule == rules[:1]
    assert shown == autoscaler


def test_they_begin_with_what_they_show_and_how_to_use_them() -> None:
    for path in FOLDER.glob("*.yaml"):
        comment = re.split(r"^(?!#)", path.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
        assert comment.startswith("# ")
        assert f"examples/autoscaling/{path.name}" in comment
