"""Whatever happens in whatever order, the job comes to rest and its counters are right.

Here nobody waits for anybody: pods fail while the operator is dead, the job is made again while its
old pods still end, watches are late, writes go wrong, and a rival operator works on an old view.
There is no undisturbed life to compare with (test_disturbed.py has that), so this asks what must
hold of every life:

- every status that is ever stored: never Succeeded and Failed, an end is for ever, never more
  restarts than backoffLimit or than failures, never fewer attempts than restarts, success only
  where the chief ended well, bounded in size;
- no pod is counted that belongs to an earlier job of the name, and none is deleted by force while
  it has its grace;
- when the disturbances end: exactly the pods that are asked for, of the present spec and cluster,
  none of an earlier job, and neither the operator nor a new one finds anything to do.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.core import pod_state
from tftraining_operator.core.conditions import is_finished, is_true
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.observed import observe, owned_by, slots
from tftraining_operator.core.policies.termination import OVERDUE
from tftraining_operator.core.progress import Report, UnreachablePeer
from tftraining_operator.core.times import parse
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind

from tests.stateful.scenarios import STATUS_BYTES
from tests.unit.builders import IMAGE, PodBuilder, a_job
from tests.unit.fakes import FakeCluster, Fault, KilledError, Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.api.status import Status
    from tftraining_operator.reconcile.store import JobKey

    from tests.unit.builders import JobBuilder, Raw
    from tests.unit.fakes import Lag

pytestmark = pytest.mark.timeout(400)  # for a failure: it is made small before it is told

WHICH = st.integers(0, 9)
LAG = st.fixed_dictionaries({kind: st.integers(0, 3) for kind in Kind})
REACTION = st.sampled_from(["none", "operator", "operator", "all", "all", "all"])
"""Who has time to work before the next thing happens."""
ERRORS = st.sampled_from(
    [
        ("create", errors.TransientError("etcd is slow", status=500)),
        ("create", errors.ForbiddenError("exceeded quota: pods=4", status=403)),
        ("delete", errors.TransientError("etcd is slow", status=500)),
        ("patch_status", errors.ConflictError("modified", status=409)),
        ("patch_status", errors.TransientError("no route to host")),
        ("create_event", errors.TransientError("no route to host")),
        ("get", errors.NotFoundError("gone", status=404)),
    ]
)


class Guarded(FakeCluster):
    """Lets nobody delete a pod by force while it has its grace, and its node is heard of."""

    def _delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> Raw:
        raw = self.objects.get((kind, namespace, name))
        if kind is Kind.POD and grace == 0 and raw is not None and uid not in self.silent:
            ends = raw["metadata"].get("deletionTimestamp")
            assert (
                not pod_state.runs_any_container(raw)
                or raw["metadata"]["uid"] != uid
                or (ends is not None and self.clock() >= parse(ends) + OVERDUE)
            )
        return super()._delete(kind, namespace, name, uid, grace=grace)


class Life(RuleBasedStateMachine):
    """One job, and all that a cluster, its users and its failures can do to it."""

    cluster: FakeCluster
    operator: Operator
    rival: Operator
    key: JobKey
    job: JobBuilder

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.seen = 0
        self.failures = 0
        """That may count against backoffLimit, of the present job."""
        self.chief_succeeded = False
        self.end: Status | None = None

    @initialize(
        mirrored=st.booleans(),
        enough=st.sampled_from([None, 1]),
        evaluator=st.booleans(),
        backoff=st.sampled_from([3, 1, 0, 9]),
        stall=st.sampled_from([None, 90]),
        clean=st.sampled_from(["Running", "All", "None"]),
        reaction=REACTION,
    )
    def submit(
        self,
        *,
        mirrored: bool,
        enough: int | None,
        evaluator: bool,
        backoff: int,
        stall: int | None,
        clean: str,
        reaction: str,
    ) -> None:
        job = a_job().mirrored(workers=2) if mirrored else a_job().with_workers(2)
        if enough is not None and not mirrored:
            job.with_role("worker", minReplicas=enough)
        if evaluator:
            job.with_evaluator()
        self.backoff_limit = backoff
        self.stalls_count = stall is not None
        job.with_policy(
            suspend=False,
            backoffLimit=backoff,
            stallTimeoutSeconds=stall,
            startupDeadlineSeconds=3600,
            cleanPodPolicy=clean,
        )
        self.job = job
        self.cluster = Guarded()
        self.key = self.cluster.submit(job.raw)
        self.operator = Operator(self.cluster, self.runner)
        self.rival = Operator(self.cluster, self.runner, instance="rival")
        self._react(reaction)

    # What the operator does.

    @rule()
    def operator_works(self) -> None:
        self._work(self.operator.settle)

    @rule(lag=LAG)
    def operator_works_on_what_slow_watches_told(self, lag: Lag) -> None:
        self.operator.see(lag)
        self._work(lambda: self.operator.settle(watching=False))

    @rule(lag=LAG)
    def a_rival_works_on_what_slow_watches_told(self, lag: Lag) -> None:
        self.rival.see(lag)
        self._work(lambda: self.rival.settle(watching=False), rival=True)

    @rule(seconds=st.sampled_from([1, 7, 30, 120]))
    def time_passes(self, seconds: int) -> None:
        self._work(lambda: self.operator.wait(seconds))

    @rule(crowded=st.booleans())
    def other_jobs_wait_or_do_not(self, *, crowded: bool) -> None:
        self.operator.crowded = crowded

    @rule()
    def operator_restarts(self) -> None:
        self.operator = Operator(self.cluster, self.runner)

    @rule(writes=st.integers(1, 4), fault=st.sampled_from([*Fault, Fault.KILLED]))
    def a_write_goes_wrong_soon(self, writes: int, fault: Fault) -> None:
        self.cluster.faults[self.cluster.writes + writes] = fault

    @rule(error=ERRORS)
    def a_call_will_fail(self, error: tuple[str, errors.ApiError]) -> None:
        self.cluster.failing.setdefault(error[0], []).append(error[1])

    # What the nodes do.

    @rule()
    def nodes_work(self) -> None:
        self.cluster.run_pods()

    @rule(reaction=REACTION, which=WHICH, code=st.sampled_from([1, 137, 143, 0, 64]))
    def a_pod_ends(self, which: int, code: int, reaction: str) -> None:
        self._act(which, lambda pod: pod.exited(code, seconds=self._seconds()))
        self._react(reaction)

    @rule(reaction=REACTION, code=st.sampled_from([1, 75, 0]))
    def the_chief_ends(self, code: int, reaction: str) -> None:
        self._act(0, lambda pod: pod.exited(code, seconds=self._seconds()), Role.CHIEF)
        self._react(reaction)

    @rule(reaction=REACTION, which=WHICH, code=st.sampled_from([1, 137]))
    def a_server_restarts_in_place(self, which: int, code: int, reaction: str) -> None:
        self._act(which, lambda p: p.restarted_in_place(code, seconds=self._seconds()), Role.WORKER)
        self._react(reaction)

    @rule(reaction=REACTION, which=WHICH)
    def a_pod_is_disrupted(self, which: int, reaction: str) -> None:
        def change(pod: PodBuilder) -> None:
            pod.exited(143, seconds=self._seconds()).disrupted()

        self._act(which, change, counts=False)
        self._react(reaction)

    @rule(reaction=REACTION, which=WHICH, refused=st.booleans())
    def a_node_reboots(self, which: int, reaction: str, *, refused: bool) -> None:
        def change(pod: PodBuilder) -> None:
            pod.exited(255, reason="Unknown", seconds=self._seconds())
            if refused:
                pod.status.update(reason="UnexpectedAdmissionError")

        self._act(which, change, counts=False)
        self._react(reaction)

    @rule(reaction=REACTION, which=WHICH)
    def a_pod_is_evicted(self, which: int, reaction: str) -> None:
        self._act(which, PodBuilder.evicted)
        self._react(reaction)

    @rule(which=WHICH)
    def an_image_cannot_be_pulled(self, which: int) -> None:
        pods = [n for n, raw in self.cluster.pods().items() if raw["status"]["phase"] == "Pending"]
        if pods:
            name = pods[which % len(pods)]
            self.cluster.act(name, lambda pod: pod.waiting("ErrImagePull"))

    @rule(reaction=REACTION, which=WHICH)
    def a_node_falls_silent(self, which: int, reaction: str) -> None:
        if pods := sorted(self.cluster.pods()):
            self.cluster.lose_node(pods[which % len(pods)])
        self._react(reaction)

    @rule(reaction=REACTION, which=WHICH)
    def a_pod_is_gone(self, which: int, reaction: str) -> None:
        if pods := sorted(self.cluster.pods()):
            self.cluster.collect(pods[which % len(pods)])
        self._react(reaction)

    @rule(reaction=REACTION, step=st.integers(0, 1000))
    def the_chief_makes_progress(self, step: int, reaction: str) -> None:
        self.operator.progress.told[Role.CHIEF] = Report(step=step, total_steps=1000)
        self.operator.look(self.key)
        self._react(reaction)

    @rule(reaction=REACTION, task=st.sampled_from(["ps-0", "worker-0", "worker-1"]))
    def the_chief_does_not_reach_a_server(self, task: str, reaction: str) -> None:
        hung = UnreachablePeer(task=task, seconds=12)
        self.operator.progress.told[Role.CHIEF] = Report(
            step=1, total_steps=1000, unreachable=[hung], received=self.cluster.clock()
        )
        self.operator.look(self.key)
        self._react(reaction)

    # What users do.

    @rule(reaction=REACTION, which=WHICH)
    def a_user_deletes_a_pod(self, which: int, reaction: str) -> None:
        if pods := sorted(self.cluster.pods()):
            raw = self.cluster.pods()[pods[which % len(pods)]]
            self.cluster._delete(
                Kind.POD, *self.key[:1], raw["metadata"]["name"], raw["metadata"]["uid"]
            )
        self._react(reaction)

    @rule(reaction=REACTION, value=st.sampled_from([True, False, False]))
    def a_user_suspends_or_resumes(self, *, value: bool, reaction: str) -> None:
        self.cluster.edit(self.key, lambda spec: spec["runPolicy"].update(suspend=value))
        self._react(reaction)

    @rule(reaction=REACTION, seen=st.booleans(), resumed=st.booleans(), ps=st.integers(1, 2))
    def a_user_corrects_the_job(self, ps: int, reaction: str, *, seen: bool, resumed: bool) -> None:
        """Suspend it for that, and perhaps resume it before the operator has looked."""
        self.cluster.suspend(self.key)
        if seen:
            self._work(self.operator.settle)

        def correct(spec: dict[str, Any]) -> None:
            image = f"version-{self.cluster.job(self.key)['metadata']['generation']}"
            spec["template"]["spec"]["containers"][0]["image"] = image
            if "ps" in spec:
                spec["ps"]["replicas"] = ps
            spec["runPolicy"]["suspend"] = not resumed

        self.cluster.edit(self.key, correct)
        self._react(reaction)

    @rule(reaction=REACTION, limit=st.sampled_from([0, 1, 9]))
    def a_user_allows_more_or_fewer_restarts(self, limit: int, reaction: str) -> None:
        self.backoff_limit = max(self.backoff_limit, limit)
        self.cluster.edit(self.key, lambda spec: spec["runPolicy"].update(backoffLimit=limit))
        self._react(reaction)

    @rule(reaction=REACTION)
    def somebody_takes_the_status_away(self, reaction: str) -> None:
        self.every_status_is_sane()
        raw = self.cluster.job(self.key)
        if "chiefCompletionTime" not in raw.get("status", {}) and self.end is None:
            self.cluster.change(Kind.JOB, raw, lambda body: body.pop("status", None))
        self._react(reaction)

    @rule(reaction=REACTION, count=st.integers(1, 3))
    def a_user_scales(self, count: int, reaction: str) -> None:
        self.cluster.edit(self.key, lambda spec: spec["worker"].update(replicas=count))
        self._react(reaction)

    @rule(reaction=REACTION)
    def a_user_makes_the_job_again(self, reaction: str) -> None:
        self.every_status_is_sane()
        self.cluster.remove_job(self.key)
        self.cluster.submit(self.job.raw)
        self.end = None
        self.failures, self.chief_succeeded = 0, False
        self._react(reaction)

    def _react(self, reaction: str) -> None:
        if reaction != "none":
            self._work(self.operator.settle)
        for _ in range(3 if reaction == "all" else 0):
            self.cluster.run_pods()
            self._work(self.operator.settle)

    # What must hold.

    @precondition(lambda self: hasattr(self, "cluster"))
    @invariant()
    def every_status_is_sane(self) -> None:
        for status in self.cluster.statuses[self.seen :]:
            succeeded = is_true(status, ConditionType.SUCCEEDED)
            failed = is_true(status, ConditionType.FAILED)
            assert not (succeeded and failed)
            assert is_finished(status) == (succeeded or failed)
            assert 0 <= status.restarts <= self.backoff_limit
            assert status.restarts <= status.attempt
            assert status.restarts <= self.failures or self.stalls_count
            assert self.chief_succeeded or not (succeeded or status.chief_completion_time)
            assert len(json.dumps(status.as_dict()).encode()) < STATUS_BYTES
            if self.end is not None:
                assert status.conditions == self.end.conditions, "an end is for ever"
                assert status.completion_time == self.end.completion_time
                assert status.replicas == self.end.replicas
            elif is_finished(status):
                self.end = status
        self.seen = len(self.cluster.statuses)

    def teardown(self) -> None:
        try:
            if hasattr(self, "cluster"):
                self._comes_to_rest()
        finally:
            self.runner.close()

    def _comes_to_rest(self) -> None:
        self.cluster.failing.clear()
        self.cluster.faults.clear()
        self._remove_nodes_that_hold_names()
        # Longer in all than any backoff or timeout of these jobs.
        for step in range(8):
            self.operator.progress.told[Role.CHIEF] = Report(step=2000 + step)
            self.operator.look(self.key)
            self._react("all")
            self._work(self.rival.settle, rival=True)
            self._work(lambda: self.operator.wait(60))
        self._react("all")
        assert not self.cluster.run_pods()
        self.every_status_is_sane()
        before = sum(self.cluster.calls.values())
        self.operator.one_pass(self.key)
        assert sum(self.cluster.calls.values()) == before, "at rest a pass makes no call"
        Operator(self.cluster, self.runner).settle()
        assert sum(self.cluster.calls.values()) == before, "nor does a new operator find work"

        job = parse_job(self.cluster.job(self.key), self.cluster.clock())
        pods = self.cluster.pods()
        assert all(owned_by(raw, job.uid) for raw in pods.values())
        wanted = {name for _, _, name in slots(job)}
        if is_finished(job.status):
            policy = job.spec.run_policy.clean_pod_policy.value
            running = [n for n, raw in pods.items() if raw["status"]["phase"] == "Running"]
            assert pods == {} if policy == "All" else policy == "None" or running == []
        elif job.spec.run_policy.suspend:
            assert job.status.state == "Suspended"
            assert pods == {}
        else:
            assert job.status.state == "Running"
            assert set(pods) == wanted
            assert job.status.message == "the chief trains"
            assert job.status.excluded_workers == []
            assert job.status.unavailable_workers == []
            assert job.status.observed_generation == job.meta.generation
            ready = {role.name: role.ready for role in job.status.roles}
            assert ready == {role: job.desired(role) for role in Role if job.desired(role)}
            asked = self.cluster.job(self.key)["spec"]["template"]["spec"]["containers"][0]
            images = {raw["spec"]["containers"][0]["image"] for raw in pods.values()}
            assert images == {asked.get("image", IMAGE)}, "all are of the present spec"
            chief = observe(job, pods.values(), [], self.cluster.clock()).get(Role.CHIEF)
            assert chief is not None
            assert chief.workers == job.worker_set, "the chief knows its cluster"

    def _remove_nodes_that_hold_names(self) -> None:
        """Let an administrator do what no operator may: give up an earlier job's pods."""
        uid = self.cluster.job(self.key)["metadata"]["uid"]
        for name, raw in self.cluster.pods().items():
            if raw["metadata"]["uid"] in self.cluster.silent and not owned_by(raw, uid):
                self.cluster.collect(name)

    def _restart_operator(self) -> None:
        self.operator = Operator(self.cluster, self.runner)
        try:
            self.operator.settle()
        except KilledError:  # several kills may be due
            self._restart_operator()

    def _work(self, work: Callable[[], Any], *, rival: bool = False) -> None:
        try:
            work()
        except KilledError:
            if rival:
                self.rival = Operator(self.cluster, self.runner, instance="rival")
                return
            self._restart_operator()
        job = parse_job(self.cluster.job(self.key), self.cluster.clock())
        done = is_finished(job.status) or job.status.chief_completion_time is not None
        if done or rival or self.operator.behind or self.cluster.failing or self.cluster.faults:
            return
        if self.operator.retrying:
            return  # a write has just failed, and is repeated in a moment
        if any("deletionTimestamp" in raw["metadata"] for raw in self.cluster.pods().values()):
            return  # servers stay until the chief has saved and is gone
        live = {
            name
            for name, raw in self.cluster.pods().items()
            if "deletionTimestamp" not in raw["metadata"] and owned_by(raw, job.uid)
        }
        assert live <= {name for _, _, name in slots(job)}, "no more pods than asked"

    def _act(
        self,
        which: int,
        change: Callable[[PodBuilder], object],
        role: Role | None = None,
        *,
        counts: bool = True,
    ) -> None:
        pods = [
            name
            for name, raw in sorted(self.cluster.pods().items())
            if raw["status"]["phase"] == "Running" and (role is None or f"-{role.value}-" in name)
        ]
        if pods:
            name = pods[which % len(pods)]
            self.cluster.act(name, change)
            phase = self.cluster.pods()[name]["status"]["phase"]
            self.chief_succeeded |= phase == "Succeeded" and f"-{Role.CHIEF}-" in name
            self.failures += phase == "Failed" and counts

    def _seconds(self) -> float:
        return (self.cluster.clock() - FakeCluster().clock()).total_seconds()


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
