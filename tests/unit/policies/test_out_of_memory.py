"""A chief that runs out of memory twice in a row."""

from __future__ import annotations

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import Restart
from tftraining_operator.core.policies import out_of_memory

from tests.unit.builders import a_job, a_pod, seen, stamp


@pytest.mark.parametrize(
    ("limit", "before", "says"),
    [
        pytest.param("900Mi", "OOMKilled", "with a memory limit of 900Mi", id="with a limit"),
        pytest.param(None, "OOMKilled", "without a memory limit", id="without one"),
        pytest.param("900Mi", "ExitCode", "", id="the first time"),
        pytest.param("900Mi", None, "", id="after a restart without a failure"),
    ],
)
def test_the_message_says_how_much_it_had(limit: str | None, before: str | None, says: str) -> None:
    job = a_job()
    if limit:
        job.with_container(resources={"limits": {"memory": limit}})
    last = Restart(reason="ChiefFailed", time=stamp(), counted=True, failure_reason=before)
    built = job.with_status(last_restart=last).build()
    chief = a_pod(built, Role.CHIEF).exited(137, reason="OOMKilled")
    (found,) = seen(built, chief).pods.values()
    advice = out_of_memory.advice(built, found)
    assert says in advice
    assert bool(advice) is bool(says)
    assert "raise" not in advice, "the failure's own message says what to do"


def test_another_container_of_the_chief_is_not_the_chief() -> None:
    last = Restart(reason="ChiefFailed", time=stamp(), counted=True, failure_reason="OOMKilled")
    job = a_job().with_status(last_restart=last).build()
    chief = a_pod(job, Role.CHIEF).waiting("PodInitializing")
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    chief.status["initContainerStatuses"] = [{"name": "fetch", "state": {"terminated": ended}}]
    chief.status["phase"] = "Failed"
    (found,) = seen(job, chief).pods.values()
    assert found.failure is not None
    assert found.failure.reason == "OOMKilled"
    assert out_of_memory.advice(job, found) == ""
