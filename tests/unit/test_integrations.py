"""The manifests of examples/integrations fit the API, and what the operator writes at the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tftraining
from tftraining import TFTrainingClient, manifest, submission
from tftraining.job import JobFailedError
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import ModelStatus
from tftraining_operator.core import desired
from tftraining_operator.reconcile.store import Kind

from tests import integrations
from tests.unit.builders import a_condition, a_job, stamp
from tests.unit.client.connection import JOBS, Stored
from tests.unit.strictness import unknown_fields

if TYPE_CHECKING:
    from tests.unit.builders import Raw
    from tests.unit.fakes import Operator

VALIDATION = Path(__file__).parents[2] / "trainer_image/tftrainer/training/validation.py"
GJSON = re.compile(r'status\.conditions\.#\(type=="(\w+)"\)#\|#\(status=="(\w+)"\)#')
METRICS = {"val_accuracy": 0.97222, "val_loss": 1.234e-05}
EXPORTED = "/checkpoints/export/810"
SELECTOR = re.compile(r"status\.state == (\w+)")


@pytest.mark.parametrize("name", integrations.NAMES)
def test_the_job_is_one_that_the_api_server_takes(name: str) -> None:
    raw = integrations.inner(name)
    submission.check(raw, name)
    named = {**raw, "metadata": {"name": "digits", **raw["metadata"]}}
    job = manifest.job_of(named, name, uid="uid-1")
    for pod in desired.samples(job, "tftraining/trainer:0.1.0"):
        assert unknown_fields("Pod", pod) == []


def by_state(raw: Raw, expression: str) -> bool:
    """Compare as Argo does, which knows a label selector and no more."""
    found = SELECTOR.fullmatch(expression)
    assert found is not None
    return bool(raw["status"]["state"] == found[1])


def by_condition(raw: Raw, expression: str) -> bool:
    """Compare as Katib does, which takes a GJSON path."""
    found = GJSON.fullmatch(expression)
    assert found is not None
    return any(
        (each["type"], each["status"]) == (found[1], found[2])
        for each in raw["status"]["conditions"]
    )


CONDITIONS = {
    "argo-workflow": (("templates", 0, "resource"), by_state),
    "katib-experiment": (("trialTemplate",), by_condition),
}


@pytest.mark.parametrize(("code", "expected"), [(0, (True, False)), (64, (False, True))])
@pytest.mark.parametrize("name", CONDITIONS)
def test_its_conditions_are_those_of_the_end(
    operator: Operator, name: str, code: int, expected: tuple[bool, bool]
) -> None:
    path, matches = CONDITIONS[name]
    node: Any = integrations.outer(name)["spec"]
    for part in path:
        node = node[part]

    def found() -> tuple[bool, bool]:
        operator.settle()
        jobs = [raw for (kind, _, _), raw in operator.cluster.objects.items() if kind is Kind.JOB]
        (job,) = jobs
        return matches(job, node["successCondition"]), matches(job, node["failureCondition"])

    operator.cluster.submit(a_job().raw)
    assert found() == (False, False)
    operator.cluster.run_pods()
    assert found() == (False, False)
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(code))
    assert found() == expected


def test_katib_finds_the_chief_and_its_metrics() -> None:
    experiment = integrations.outer("katib-experiment")["spec"]
    template = experiment["trialTemplate"]
    assert template["primaryContainerName"] == keys.CONTAINER
    assert template["primaryPodLabels"] == {keys.LABEL_ROLE: Role.CHIEF.value}
    assert template["trialSpec"]["spec"]["runPolicy"] == {"cleanPodPolicy": "None"}

    assert '"validated step %d in %.1f s: %s"' in VALIDATION.read_text()
    assert 'f"{name} {value:.4g}"' in VALIDATION.read_text()
    shown = ", ".join(f"{name} {value:.4g}" for name, value in METRICS.items())
    line = f"2026-11-22T15:04:05 INFO validated step 270 in 0.4 s: {shown}"
    (pattern,) = experiment["metricsCollectorSpec"]["source"]["filter"]["metricsFormat"]
    found = {name: float(value) for name, value in re.findall(pattern, line)}
    assert found == pytest.approx(METRICS, rel=1e-3)
    wanted = experiment["objective"]
    assert {wanted["objectiveMetricName"], *wanted["additionalMetricNames"]} == set(METRICS)


class Ending(Stored):
    """An API server whose jobs end as soon as they are created."""

    def __init__(self, end: ConditionType) -> None:
        super().__init__()
        self.end = end

    def call(self, method: str, path: str, **options: Any) -> Raw:
        answer = super().call(method, path, **options)
        if method == "POST" and path == JOBS and not (options.get("query") or {}).get("dryRun"):
            ended = a_job().with_status(
                a_condition(self.end, message="no examples"),
                a_condition(ConditionType.FINISHED),
                state=self.end.value,
                observed_generation=1,
                completion_time=stamp(),
                model=ModelStatus(
                    step=810, path="/checkpoints/export/810", formats=["saved_model"]
                ),
            )
            self.add_job({**answer, "status": ended.raw["status"]})
        return answer


def run_step(monkeypatch: pytest.MonkeyPatch, stored: Stored) -> str:
    """Run the function as Kubeflow does: its source alone, without what surrounds it."""
    connected = TFTrainingClient(cluster=stored.cluster())
    monkeypatch.setattr(tftraining, "TFTrainingClient", lambda: connected)
    names: dict[str, Any] = {}
    exec(integrations.step("train"), names)  # noqa: S102 - our own example
    path: str = names["train"](name="digits", epochs=3)
    return path


def test_the_step_of_a_pipeline_returns_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Ending(ConditionType.SUCCEEDED)
    assert run_step(monkeypatch, stored) == EXPORTED
    assert stored.objects[f"{JOBS}/digits"]["spec"]["worker"] == {"replicas": 2}


def test_the_step_of_a_pipeline_fails_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobFailedError, match="no examples"):
        run_step(monkeypatch, Ending(ConditionType.FAILED))
