"""What the scenarios expect of a job that has succeeded is also expected where it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.api import Api
from e2e.recording import Recording
from e2e.scenarios.drill import Drill
from e2e.scenarios.space import Space
from tools.cluster import Cluster

EVALUATED = {"step": 9, "metrics": [{"name": "accuracy", "value": "0.97"}]}


def drill(spec: dict[str, Any], **status: Any) -> Drill:
    """A drill of a job that has succeeded."""
    record = Recording(Api(1), "n")
    conditions = [{"type": kind, "status": "True"} for kind in ("Finished", "Succeeded")]
    progress = {"step": 9, "totalSteps": 9}
    status |= {"state": "Succeeded", "conditions": conditions, "progress": progress}
    record.see_job("MODIFIED", {"metadata": {"name": "mnist"}, "spec": spec, "status": status})
    return Drill(Space(Cluster("mine", Path("kubeconfig")), "n"), record)


@pytest.mark.parametrize(
    ("spec", "status"),
    [({}, {}), ({"evaluator": {}}, {"evaluation": EVALUATED})],
    ids=["without an evaluator", "evaluated"],
)
def test_a_job_as_good_as_an_undisturbed_one_passes(
    spec: dict[str, Any], status: dict[str, Any]
) -> None:
    assert drill(spec, **status).wait_for_success()["state"] == "Succeeded"


def test_a_job_with_an_evaluator_that_was_never_evaluated_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Space, "describe", lambda *_: "its description")

    with pytest.raises(AssertionError, match="never evaluated"):
        drill({"evaluator": {}}).wait_for_success()
