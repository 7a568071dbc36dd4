"""Passes run only in namespaces that this installation has claimed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tftraining_operator.controller.access import Access
from tftraining_operator.controller.claim import LEASE
from tftraining_operator.controller.claims import State
from tftraining_operator.controller.namespaces import Namespaces
from tftraining_operator.controller.settings import Settings
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.workqueue import WorkQueue

from tests.unit.builders import a_job
from tests.unit.lease_server import LeaseServer

if TYPE_CHECKING:
    from tftraining_operator.controller.listings import Listings
    from tftraining_operator.reconcile.store import JobKey

    from tests.unit.fakes import FakeCluster, Operator

CLAIMING = Settings(lease_namespace="ours", lease_name="operator", lease_seconds=15)


class Unlisted:
    """No listings: whatever is asked for may be read."""

    async def may_read(self, _namespace: str) -> bool:
        return True


UNLISTED = cast("Listings", Unlisted())


class Place:
    """An operator with a job, and the lease of the job's namespace."""

    def __init__(self, operator: Operator, settings: Settings = CLAIMING) -> None:
        self.operator = operator
        self.key = operator.cluster.submit(a_job().raw)
        operator.settle()
        self.server = LeaseServer()
        self.access = Access()
        self.looked: list[JobKey] = []
        self.namespaces = Namespaces(
            settings,
            self.server,
            operator.store,
            access=self.access,
            listings=UNLISTED,
            reconciler=operator.reconciler,
            look_at=self.looked.extend,
        )

    def occupy(self, holder: str) -> None:
        metadata: dict[str, Any] = {"namespace": self.key.namespace, "name": LEASE}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 60}
        self.operator.runner.run(self.server.create_lease({"metadata": metadata, "spec": spec}))

    def one_pass(self) -> float | None:
        return self.operator.runner.run(self.namespaces.pass_over(self.key))


def counted(place: Place) -> dict[State, int]:
    """Count the namespaces in each state that any is in."""
    found = {state: place.namespaces.count(state) for state in State}
    return {state: count for state, count in found.items() if count}


def test_without_the_permission_for_leases_a_namespace_is_unguarded(operator: Operator) -> None:
    place = Place(operator)

    async def forbidden(*_: object) -> dict[str, Any]:
        raise errors.ForbiddenError("cannot get leases", status=403)

    place.server.get_lease = forbidden  # type: ignore[method-assign]
    place.one_pass()
    assert counted(place) == {State.UNGUARDED: 1}


def test_an_operator_without_a_lease_claims_nothing(operator: Operator) -> None:
    place = Place(operator, Settings())
    place.one_pass()
    assert place.server.leases == {}
    assert place.namespaces.works_in("anywhere")
    assert place.namespaces.problem() is None


@pytest.mark.parametrize("settings", [CLAIMING, Settings()])
def test_in_a_namespace_that_may_not_be_read_nothing_is_done(
    operator: Operator, cluster: FakeCluster, settings: Settings
) -> None:
    place = Place(operator, settings)
    place.access.lose(place.key.namespace, errors.ForbiddenError("no pods", status=403))
    for name in list(cluster.pods()):
        cluster.collect(name)
    operator.see()
    calls = cluster.calls.total()
    assert place.one_pass() is None
    assert not place.namespaces.works_in(place.key.namespace)
    assert (cluster.calls.total(), place.server.leases) == (calls, {})

    place.access.regain(place.key.namespace)
    place.one_pass()
    assert cluster.calls.total() > calls
    assert place.namespaces.works_in(place.key.namespace)


def test_the_first_pass_claims_the_namespace_for_the_installation(operator: Operator) -> None:
    place = Place(operator)
    assert not place.namespaces.works_in(place.key.namespace)
    place.one_pass()
    spec = place.server.leases[place.key.namespace, LEASE]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("ours/operator", 60)
    assert place.namespaces.works_in(place.key.namespace)
    assert place.looked == []
    assert counted(place) == {State.HELD: 1}


def test_in_a_namespace_of_another_installation_nothing_is_done(
    operator: Operator, cluster: FakeCluster
) -> None:
    place = Place(operator)
    place.occupy("theirs/operator")
    for name in list(cluster.pods()):
        cluster.collect(name)
    operator.see()
    assert place.one_pass() is None
    assert cluster.pods() == {}
    assert not place.namespaces.works_in(place.key.namespace)
    assert counted(place) == {State.OTHER: 1}


def test_what_is_known_of_a_job_that_is_gone_is_forgotten_without_a_claim(
    operator: Operator, cluster: FakeCluster
) -> None:
    place = Place(operator)
    cluster.remove_job(place.key)
    operator.see()
    assert place.one_pass() is None
    assert place.server.leases == {}


def test_a_pass_ends_when_its_lease_does(operator: Operator, cluster: FakeCluster) -> None:
    place = Place(operator, replace(CLAIMING, lease_seconds=cast("int", 0.01)))
    for name in list(cluster.pods()):
        cluster.collect(name)
    operator.see()

    async def never() -> None:
        await asyncio.Event().wait()

    cluster.pause = never
    with pytest.raises(errors.NotLeadingError, match="was not renewed in time"):
        place.one_pass()


def test_a_pass_may_last_longer_than_a_lease_that_is_renewed(
    operator: Operator, cluster: FakeCluster
) -> None:
    place = Place(operator, replace(CLAIMING, lease_seconds=cast("int", 0.5)))
    for name in list(cluster.pods()):
        cluster.collect(name)
    operator.see()

    pauses = iter([1.5])

    async def long() -> None:
        await asyncio.sleep(next(pauses, 0))

    async def scene() -> None:
        keeping = asyncio.create_task(place.namespaces.keep())
        await place.namespaces.pass_over(place.key)
        keeping.cancel()
        await asyncio.wait({keeping})

    cluster.pause = long
    operator.runner.run(scene())


def test_jobs_of_a_namespace_that_is_left_are_forgotten_when_their_passes_have_ended(
    operator: Operator, cluster: FakeCluster
) -> None:
    place = Place(operator)
    cluster.run_pods()
    operator.settle()
    assert place.key in operator.progress.watched
    steps: list[str] = []

    async def slow(_key: JobKey) -> float | None:
        await asyncio.sleep(0.05)
        steps.append("passed")
        return None

    async def scene() -> None:
        queue: WorkQueue[JobKey] = WorkQueue(slow, workers=1)
        place.namespaces.serve(queue)
        running = asyncio.create_task(queue.run())
        queue.add(place.key)
        await asyncio.sleep(0.01)
        await place.namespaces.leave(place.key.namespace)
        steps.append("left")
        running.cancel()
        await asyncio.wait({running})

    operator.runner.run(scene())
    assert steps == ["passed", "left"]
    assert place.key not in operator.progress.watched
