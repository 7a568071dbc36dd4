"""A job that is deleted while it trains leaves nothing, whether the operator is there or not."""

import re
from contextlib import suppress

import pytest

from e2e.jobs import claim, endless, tasks
from e2e.platform_faults import without_operator
from e2e.scenarios.space import Space
from tools.cluster import ClusterError
from tools.waiting import eventually

GRACE_SECONDS = 30


def nothing_is_left(space: Space) -> bool:
    pods = space.pods()
    services = space.kubectl("get", "services", "-o", "name").strip()
    return not pods and not services


def test_with_the_operator_running(space: Space) -> None:
    space.apply(tasks(), endless())
    space.wait_for("Running")
    space.kubectl("delete", "tftj", "mnist", "--timeout=10s")
    eventually(lambda: nothing_is_left(space), "no pod and no service", GRACE_SECONDS)


def test_its_last_step_is_saved(space: Space) -> None:
    # No checkpoint is saved but that of its end.
    claimed = {"persistentVolumeClaim": {"claimName": "mnist"}}
    job = endless("mnist", "--checkpoint-seconds=3600", checkpoint=claimed)
    space.apply(tasks(), claim("mnist"), job)
    reached = eventually(
        lambda: step if (step := space.status().get("progress", {}).get("step", 0)) >= 10 else None,
        "ten steps",
        240,
    )
    space.kubectl("delete", "tftj", "mnist", "--timeout=10s")
    eventually(lambda: nothing_is_left(space), "no pod and no service", GRACE_SECONDS)
    space.apply(job)
    assert eventually(lambda: resumed_from(space), "a job that resumes", 240) >= reached


def resumed_from(space: Space) -> int | None:
    """Return the step from which the chief says that it resumes, None if it has not yet."""
    with suppress(ClusterError):
        found = re.search(r"resumed from step (\d+) of ", space.logs("mnist-chief-0"))
        return int(found[1]) if found is not None else None
    return None


@pytest.mark.alone
def test_with_the_operator_stopped(space: Space) -> None:
    space.apply(tasks(), endless())
    space.wait_for("Running")
    with without_operator(space.cluster):
        space.kubectl("delete", "tftj", "mnist", "--timeout=10s")
        eventually(lambda: nothing_is_left(space), "no pod and no service", GRACE_SECONDS)
