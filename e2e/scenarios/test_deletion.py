"""A job that is deleted while it trains leaves nothing, whether the operator is there or not."""

import pytest

from e2e.jobs import endless, tasks
from e2e.platform_faults import without_operator
from e2e.scenarios.space import Space
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


@pytest.mark.alone
def test_with_the_operator_stopped(space: Space) -> None:
    space.apply(tasks(), endless())
    space.wait_for("Running")
    with without_operator(space.cluster):
        space.kubectl("delete", "tftj", "mnist", "--timeout=10s")
        eventually(lambda: nothing_is_left(space), "no pod and no service", GRACE_SECONDS)
