"""Which servers are replaced because they have ended, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import PodReplacement
from tftraining_operator.core.policies import servers

from tests.unit.builders import PodBuilder, a_job, a_pod, at, seen, stamp

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("role", "policy", "state", "lost"),
    [
        pytest.param(Role.WORKER, "ExitCode", lambda p: p.evicted(), True, id="an evicted worker"),
        pytest.param(Role.PS, "ExitCode", lambda p: p.exited(0), True, id="a ps ended by its node"),
        pytest.param(
            Role.WORKER, "Never", lambda p: p.exited(0), False, id="a worker that has done its work"
        ),
        pytest.param(
            Role.WORKER,
            "Never",
            lambda p: p.exited(0).disrupted(),
            True,
            id="one that its node ended",
        ),
        pytest.param(Role.PS, "ExitCode", lambda p: p.running(), False, id="a ps that runs"),
        pytest.param(
            Role.EVALUATOR, "ExitCode", lambda p: p.evicted(), True, id="an evicted evaluator"
        ),
        pytest.param(
            Role.EVALUATOR, "ExitCode", lambda p: p.exited(0), False, id="an evaluator that is done"
        ),
        pytest.param(Role.CHIEF, "ExitCode", lambda p: p.exited(1), False, id="the chief"),
    ],
)
def test_is_lost(
    role: Role, policy: str, state: Callable[[PodBuilder], PodBuilder], *, lost: bool
) -> None:
    job = a_job().with_evaluator().with_role(role.value, restartPolicy=policy).build()
    (found,) = seen(job, state(a_pod(job, role))).pods.values()
    assert servers.is_lost(job, found) == lost


def test_a_member_of_a_gang_is_lost_only_if_the_gang_is_without_it() -> None:
    job = a_job().mirrored(workers=2).with_status(cluster_workers=1).build()
    pods = [a_pod(job, Role.WORKER, index).exited(1) for index in range(2)]
    observed = seen(job, *pods)
    assert [servers.is_lost(job, pod) for pod in observed.of(Role.WORKER)] == [False, True]


@pytest.mark.parametrize(
    ("count", "uid", "ago", "delay"),
    [
        pytest.param(0, "before", 1, 10, id="the first time"),
        pytest.param(1, "before", 1, 20, id="the second"),
        pytest.param(4, "before", 1, 160, id="the fifth"),
        pytest.param(20, "before", 1, 300, id="at most 300 s"),
        pytest.param(1, "uid-of-mnist-worker-0", 1, 10, id="its own replacement is no earlier one"),
        pytest.param(4, "before", 601, 10, id="what lasted ten minutes begins anew"),
    ],
)
def test_a_replacement_waits_longer_each_time_in_a_row(
    count: int, uid: str, ago: float, delay: float
) -> None:
    known = PodReplacement(pod="mnist-worker-0", uid=uid, count=count, time=stamp(1000 - ago))
    job = a_job().with_status(replacements=[known]).build()
    (pod,) = seen(job, a_pod(job, Role.WORKER).made(990).evicted()).pods.values()
    assert servers.replacement_due(job, pod, at(1000)) == at(990 + delay)
