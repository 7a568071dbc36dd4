"""A plan carried out: in its order, so many calls at once, and safe to repeat."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.job import Job, parse_job
from tftraining_operator.core.observed import observe
from tftraining_operator.core.plan import NewPod, Plan
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.reconcile import errors, limits
from tftraining_operator.reconcile.applier import Applier
from tftraining_operator.reconcile.objects import NameConflictError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

from tests.unit.builders import IMAGE, NOW, PodBuilder, Raw, a_job
from tests.unit.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY = JobKey("default", "mnist")


def new_pods(bodies: Iterable[Raw]) -> list[NewPod]:
    return [NewPod(body["metadata"]["name"], partial(dict, body)) for body in bodies]


class Bench:
    """An applier over a cluster that has one job."""

    def __init__(self, workers: int = 2) -> None:
        self.cluster = FakeCluster()
        self.cluster.submit(a_job().with_workers(workers).raw)
        self.store = Store()
        self.applier = Applier(self.cluster, self.store)

    @property
    def job(self) -> Job:
        return parse_job(self.cluster.job(KEY), self.cluster.clock())

    def pods(self) -> list[Raw]:
        job = self.job
        return [
            desired.pod(job, role, i, 0, IMAGE) for role in Role for i in range(job.desired(role))
        ]

    def plan(self, **fields: Any) -> Plan:
        pods = new_pods(self.pods())
        return Plan(**{"service": desired.service(self.job), "pods": pods} | fields)

    def deleting(self, *names: str) -> Plan:
        pods = observe(self.job, self.store.children(Kind.POD, KEY), [], NOW).pods.values()
        return Plan(removals=tuple(Removal(pod, NOW) for pod in pods if pod.name in names))

    def known(self) -> set[str]:
        return {raw["metadata"]["name"] for raw in self.store.children(Kind.POD, KEY)}


ALL = {"mnist-ps-0", "mnist-worker-0", "mnist-worker-1", "mnist-chief-0"}


async def test_what_is_made_is_known_before_any_watch_tells_of_it() -> None:
    bench = Bench()
    outcome = await bench.applier.apply(bench.job, bench.plan(), carefully=False)
    assert set(outcome.created) == bench.known() == set(bench.cluster.pods()) == ALL
    assert len(bench.store.children(Kind.SERVICE, KEY)) == 1


async def test_what_exists_already_and_is_ours_is_taken_as_made_by_another() -> None:
    bench = Bench()
    await bench.applier.apply(bench.job, bench.plan(), carefully=False)
    other = Applier(bench.cluster, Store())
    outcome = await other.apply(bench.job, bench.plan(), carefully=False)
    assert outcome.created == []
    assert set(bench.cluster.made.values()) == {1}


async def test_what_is_deleted_is_known_as_going_or_gone() -> None:
    bench = Bench()
    await bench.applier.apply(bench.job, bench.plan(), carefully=False)
    bench.cluster.act("mnist-worker-0", PodBuilder.running)
    bench.store.put(Kind.POD, await bench.cluster.get(Kind.POD, "default", "mnist-worker-0"))
    await bench.applier.apply(
        bench.job, bench.deleting("mnist-worker-0", "mnist-worker-1"), carefully=False
    )
    assert bench.known() == ALL - {"mnist-worker-1"}, "no node knew of worker-1"
    observed = observe(bench.job, bench.store.children(Kind.POD, KEY), [], NOW)
    going = observed.get(Role.WORKER, 0)
    assert going is not None
    assert going.deleting


async def test_a_pod_that_was_made_again_meanwhile_is_not_deleted() -> None:
    bench = Bench()
    await bench.applier.apply(bench.job, bench.plan(), carefully=False)
    plan = bench.deleting("mnist-worker-0")
    bench.cluster.collect("mnist-worker-0")
    await bench.cluster.create(
        Kind.POD, next(p for p in bench.pods() if "worker-0" in p["metadata"]["name"])
    )
    await bench.applier.apply(bench.job, plan, carefully=False)
    assert "mnist-worker-0" in bench.cluster.pods()


async def test_a_pod_that_is_gone_already_is_forgotten() -> None:
    bench = Bench()
    await bench.applier.apply(bench.job, bench.plan(), carefully=False)
    plan = bench.deleting("mnist-ps-0")
    bench.cluster.collect("mnist-ps-0")
    await bench.applier.apply(bench.job, plan, carefully=False)
    assert bench.known() == ALL - {"mnist-ps-0"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(
            errors.ForbiddenError("pods is forbidden: exceeded quota: q", status=403),
            "QuotaExceeded",
            id="quota",
        ),
        pytest.param(
            errors.ForbiddenError('violates PodSecurity "restricted:latest"', status=403),
            "PodSecurity",
            id="Pod Security admission",
        ),
        pytest.param(errors.ForbiddenError("no", status=403), "Refused", id="another admission"),
        pytest.param(
            errors.InvalidObjectError("spec.x: Invalid value", status=422), "InvalidPod", id="422"
        ),
    ],
)
async def test_a_refusal_is_a_fact_and_keeps_no_other_pod(
    error: errors.ApiError, reason: str
) -> None:
    bench = Bench()
    bench.cluster.refuse = lambda _kind, body: (
        error if body["metadata"]["name"] == "mnist-ps-0" else None
    )
    outcome = await bench.applier.apply(bench.job, bench.plan(), carefully=False)
    assert set(outcome.created) == ALL - {"mnist-ps-0"}
    assert outcome.refused["mnist-ps-0"].reason == reason
    assert outcome.refused["mnist-ps-0"].message.startswith(error.message)


async def test_an_error_is_raised_after_all_others_were_tried() -> None:
    bench = Bench()
    await bench.applier.apply(bench.job, Plan(service=desired.service(bench.job)), carefully=False)
    bench.cluster.failing["create"] = [errors.TransientError("busy", status=500)]
    with pytest.raises(errors.TransientError):
        await bench.applier.apply(bench.job, bench.plan(service=None), carefully=False)
    assert len(bench.known()) == 3


async def test_no_pod_is_made_while_one_that_must_go_first_cannot() -> None:
    bench = Bench()
    await bench.applier.apply(
        bench.job, bench.plan(pods=new_pods(bench.pods()[:1])), carefully=False
    )
    bench.cluster.failing["delete"] = [errors.TransientError("busy", status=500)]
    plan = bench.deleting("mnist-ps-0")
    plan.pods.extend(new_pods(bench.pods()[1:]))
    with pytest.raises(errors.TransientError):
        await bench.applier.apply(bench.job, plan, carefully=False)
    assert bench.known() == {"mnist-ps-0"}


async def test_a_strangers_pod_is_a_conflict() -> None:
    bench = Bench()
    stranger = {"metadata": {"name": "mnist-ps-0", "namespace": "default"}, "spec": {}}
    await bench.cluster.create(Kind.POD, stranger)
    with pytest.raises(NameConflictError, match="pod mnist-ps-0 exists and does not belong"):
        await bench.applier.apply(bench.job, bench.plan(), carefully=False)


async def test_a_name_that_came_and_went_is_an_error_to_repeat() -> None:
    bench = Bench()
    stranger = {"metadata": {"name": "mnist-ps-0", "namespace": "default"}, "spec": {}}
    await bench.cluster.create(Kind.POD, stranger)
    bench.cluster.failing["get"] = [errors.NotFoundError("gone", status=404)]
    with pytest.raises(errors.TransientError):
        await bench.applier.apply(bench.job, bench.plan(), carefully=False)


async def test_a_job_is_deleted_and_nothing_else_is_called() -> None:
    bench = Bench()
    await bench.applier.apply(bench.job, Plan(delete_job=True), carefully=False)
    assert bench.cluster.objects == {}
    assert sum(bench.cluster.calls.values()) == 1


class Slow(FakeCluster):
    """A server that answers after a while, and counts who waits."""

    waiting = 0
    most = 0

    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0)
        self.waiting -= 1
        return await super().create(kind, body, dry_run=dry_run)


async def test_pods_are_made_side_by_side_but_not_all_at_once() -> None:
    bench = Bench(workers=100)
    slow = Slow(objects=bench.cluster.objects)
    outcome = await Applier(slow, Store()).apply(bench.job, bench.plan(), carefully=False)
    assert len(outcome.created) == 102
    assert slow.most == limits.JOB


class Body(dict[str, Any]):
    """A pod's body of which it is known whether somebody keeps it."""

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(None, id="created"),
        pytest.param(errors.InvalidObjectError("no", status=422), id="refused"),
        pytest.param(errors.ForbiddenError("exceeded quota: q", status=403), id="beyond quota"),
        pytest.param(errors.TransientError("busy", status=500), id="failed"),
    ],
)
async def test_no_more_bodies_exist_than_calls_are_made_at_once(
    error: errors.ApiError | None,
) -> None:
    bench, alive, most = Bench(workers=100), WeakSet[Body](), 0

    class Counting(Slow):
        async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
            nonlocal most
            if isinstance(body, Body):
                alive.add(body)
                most = max(most, len(alive))
            found = await super().create(kind, body, dry_run=dry_run)
            # In the third batch, which is larger than the number of calls at once.
            if error is not None and len(self.pods()) > 24:
                raise type(error)(error.message, status=error.status)
            return found

    pods = [NewPod(each["metadata"]["name"], partial(Body, each)) for each in bench.pods()]
    counting = Counting(objects=bench.cluster.objects)
    try:
        await Applier(counting, Store()).apply(bench.job, bench.plan(pods=pods), carefully=False)
    except errors.TransientError:
        assert isinstance(error, errors.TransientError)
    assert most <= limits.JOB + 1, "the first error of a batch, which is raised, holds one"


async def test_a_template_that_the_server_refuses_names_role_and_words() -> None:
    bench = Bench()
    bench.cluster.refuse = lambda _kind, _body: errors.InvalidObjectError(
        'unknown field "spec.contaners"', status=400
    )
    with pytest.raises(InvalidTemplateError) as refused:
        await bench.applier.prepare(bench.job, bench.pods()[:1], bench.cluster.clock())
    assert "the pod template of ps is refused" in str(refused.value)
    assert 'unknown field "spec.contaners"' in str(refused.value)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.ForbiddenError("exceeded quota", status=403), id="quota"),
        pytest.param(errors.AlreadyExistsError("exists", status=409), id="a name in use"),
    ],
)
async def test_a_trial_judges_the_template_alone(error: errors.ApiError) -> None:
    bench = Bench()
    bench.cluster.refuse = lambda _kind, _body: error
    await bench.applier.prepare(bench.job, bench.pods(), bench.cluster.clock())
    assert bench.cluster.pods() == {}
    assert bench.cluster.calls["dry_run"] == 4


async def test_a_trial_that_the_server_cannot_make_now_is_repeated() -> None:
    bench = Bench()
    bench.cluster.failing["dry_run"] = [errors.TransientError("busy", status=500)]
    with pytest.raises(errors.TransientError):
        await bench.applier.prepare(bench.job, bench.pods(), bench.cluster.clock())


async def test_the_service_is_made_while_the_template_is_tried() -> None:
    bench = Bench()
    await bench.applier.prepare(
        bench.job, bench.pods()[:1], bench.cluster.clock(), service=desired.service(bench.job)
    )
    assert len(bench.store.children(Kind.SERVICE, KEY)) == 1
    assert bench.cluster.pods() == {}


async def test_a_network_policy_is_made_while_the_template_is_tried() -> None:
    bench = Bench()
    policy = desired.network_policy(bench.job, ())
    await bench.applier.prepare(
        bench.job, bench.pods()[:1], bench.cluster.clock(), network_policy=policy
    )
    assert len(bench.store.children(Kind.NETWORK_POLICY, KEY)) == 1
    assert bench.cluster.calls["dry_run"] == 1


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.ForbiddenError("exceeded quota", status=403), id="quota"),
        pytest.param(errors.InvalidObjectError("a policy says no", status=422), id="a policy"),
    ],
)
async def test_a_network_policy_that_is_refused_meanwhile_is_left_to_the_plan(
    error: errors.ApiError,
) -> None:
    bench = Bench()
    bench.cluster.refuse = lambda kind, _body: error if kind is Kind.NETWORK_POLICY else None
    policy = desired.network_policy(bench.job, ())
    assert not await bench.applier.prepare(
        bench.job, bench.pods()[:1], bench.cluster.clock(), network_policy=policy
    )


async def test_a_service_that_is_somebody_elses_is_told_before_any_pod_is_made() -> None:
    bench = Bench()
    theirs = desired.service(bench.job)
    theirs["metadata"] |= {"ownerReferences": [], "labels": {}}
    await bench.cluster.create(Kind.SERVICE, theirs)
    with pytest.raises(NameConflictError, match="service mnist exists"):
        await bench.applier.prepare(
            bench.job, bench.pods()[:1], bench.cluster.clock(), service=desired.service(bench.job)
        )
    assert bench.cluster.pods() == {}
