"""Any script, any disturbance: the end is that of the undisturbed script.

Hypothesis writes a script of what users, nodes and containers do to a job; it is played twice:
to an operator that nothing disturbs, and to one whose writes fail, conflict, lose their answers or
end its process, whose watches are late, each kind's by itself, and which may have a rival that
works at the same time on a view of its own. Both must come to

- the same status: conditions with their times, attempt, restarts, failures, counts;
- the same pods of the same attempts, each made as often as in the undisturbed world, so none twice;
- a rest in which neither these operators nor a new one find anything to write;
- and on the way never to two ends, never out of an end, never to a status without bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from tftraining_operator.reconcile.store import Kind

from tests.stateful.scenarios import (
    CHIEF,
    NOTHING,
    Disturbance,
    World,
    assert_at_rest,
    assert_sane,
    end,
)
from tests.unit.builders import JobBuilder, PodBuilder, a_job
from tests.unit.fakes import Fault

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    Act = Callable[[World, int], None]

pytestmark = pytest.mark.timeout(400)  # for a failure: it is made small before it is told


def _some_pod(world: World, number: int) -> str:
    names = sorted(world.cluster.pods())
    return names[number % len(names)] if names else CHIEF


def _a_server_restarts_in_place(world: World, number: int) -> None:
    name = f"mnist-worker-{number % 2}"
    world.happens(name, lambda pod: pod.restarted_in_place(137, seconds=world.elapsed()))


def _a_pod_is_disrupted(world: World, number: int) -> None:
    name = _some_pod(world, number)
    world.happens(name, lambda pod: pod.exited(143, seconds=world.elapsed()).disrupted())


def _a_user_deletes_a_pod(world: World, number: int) -> None:
    raw = world.cluster.pods().get(_some_pod(world, number))
    if raw is not None:
        metadata = raw["metadata"]
        world.cluster._delete(Kind.POD, "default", metadata["name"], metadata["uid"])
        world.go_on()


ACTS: Mapping[str, Act] = {
    "the chief fails": lambda world, n: world.ends(CHIEF, (1, 75, 137, 143)[n % 4]),
    "the chief fails for good": lambda world, _: world.ends(CHIEF, 64),
    "the chief succeeds": lambda world, _: world.ends(CHIEF, 0),
    "the evaluator succeeds": lambda world, _: world.ends("mnist-evaluator-0", 0),
    "a worker fails": lambda world, n: world.ends(f"mnist-worker-{n % 2}", (1, 137)[n % 2]),
    "a ps fails": lambda world, n: world.ends("mnist-ps-0", (1, 137)[n % 2]),
    "a server restarts in place": _a_server_restarts_in_place,
    "a pod is evicted": lambda world, n: world.happens(_some_pod(world, n), PodBuilder.evicted),
    "a pod is disrupted": _a_pod_is_disrupted,
    "a pod is gone": lambda world, n: world.loses(_some_pod(world, n)),
    "a node falls silent": lambda world, n: world.loses_node(_some_pod(world, n)),
    "a user deletes a pod": _a_user_deletes_a_pod,
    "a user suspends": lambda world, _: world.edit("runPolicy", suspend=True),
    "a user resumes": lambda world, _: world.edit("runPolicy", suspend=False),
    "a user scales": lambda world, n: world.edit("worker", replicas=1 + n % 3),
    "time passes": lambda world, n: world.go_on((1, 7, 30, 120)[n % 4]),
}
MADE_AGAIN: Mapping[str, Act] = {
    "a user makes the job again": lambda world, _: world.is_made_again(),
}


def _scripts(acts: Mapping[str, Act]) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(sorted(acts)), st.integers(0, 11)), max_size=7)


@st.composite
def _jobs(draw: st.DrawFn) -> JobBuilder:
    job = a_job().with_workers(2)
    if draw(st.booleans()):
        job = a_job().mirrored(workers=2)
    if draw(st.booleans()):
        job.with_evaluator()
    return job.with_policy(
        backoffLimit=draw(st.sampled_from([3, 1, 0])),
        cleanPodPolicy=draw(st.sampled_from(["Running", "All", "None"])),
        startupDeadlineSeconds=3600,
    )


_WATCHED = [kind for kind in Kind if kind is not Kind.DISRUPTION_BUDGET]
"""These jobs have no budget; test_crash.py has one that does."""
_LAGS = st.lists(st.fixed_dictionaries({kind: st.integers(0, 3) for kind in _WATCHED}), max_size=40)
_WRITES = st.integers(1, 60)
_SURVIVED = st.sampled_from([Fault.FAILED, Fault.CONFLICT, Fault.LOST])

LATE_AND_BROKEN = st.builds(
    Disturbance,
    faults=st.dictionaries(_WRITES, st.sampled_from(list(Fault)), max_size=12),
    lags=_LAGS,
    crowded=st.booleans(),
)
WITH_A_RIVAL = st.builds(
    Disturbance,
    faults=st.dictionaries(_WRITES, _SURVIVED, max_size=6),
    lags=st.just([]),
    rival_lags=_LAGS,
    turns=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    crowded=st.booleans(),
)


def _live(
    runner: asyncio.Runner,
    job: JobBuilder,
    script: Sequence[tuple[str, int]],
    disturbance: Disturbance = NOTHING,
) -> World:
    world = World(runner, job, disturbance)
    for act, number in script:
        {**ACTS, **MADE_AGAIN}[act](world, number)
    return world


def _ends_the_same(
    runner: asyncio.Runner,
    job: JobBuilder,
    script: Sequence[tuple[str, int]],
    disturbance: Disturbance,
    *but: str,
) -> World:
    """Live a script undisturbed and disturbed, and compare the ends; return the disturbed world."""
    undisturbed = _live(runner, job, script)
    disturbed = _live(runner, job, script, disturbance)
    found, expected = end(disturbed), end(undisturbed)
    for each in but:
        del found[each], expected[each]
    assert found == expected
    assert_at_rest(disturbed)
    return disturbed


often = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@often
@given(job=_jobs(), script=_scripts(ACTS), disturbance=LATE_AND_BROKEN)
def test_late_watches_and_broken_writes_change_no_end(
    runner: asyncio.Runner,
    job: JobBuilder,
    script: list[tuple[str, int]],
    disturbance: Disturbance,
) -> None:
    disturbed = _ends_the_same(runner, job, script, disturbance)
    assert_sane(disturbed.cluster.statuses)


@often
@given(job=_jobs(), script=_scripts(ACTS), disturbance=WITH_A_RIVAL)
def test_a_rival_on_a_late_watch_changes_no_end(
    runner: asyncio.Runner,
    job: JobBuilder,
    script: list[tuple[str, int]],
    disturbance: Disturbance,
) -> None:
    # A rival that has not read an edit yet may make a pod that is not wanted any more; it goes.
    edited = any(act.startswith("a user s") for act, _ in script)
    but = ["made"] if edited else []
    disturbed = _ends_the_same(runner, job, script, disturbance, *but)
    assert_sane(disturbed.cluster.statuses)


@often
@given(job=_jobs(), script=_scripts({**ACTS, **MADE_AGAIN}), disturbance=LATE_AND_BROKEN)
def test_a_job_made_again_ends_as_if_its_predecessor_had_never_been(
    runner: asyncio.Runner,
    job: JobBuilder,
    script: list[tuple[str, int]],
    disturbance: Disturbance,
) -> None:
    # Who has not read yet that a job is gone may make a pod for it, which is collected.
    _ends_the_same(runner, job, script, disturbance, "made")
