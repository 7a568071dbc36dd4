"""One pass over one job: read, parse, observe, decide, plan, apply, status, events."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core import desired, queueing
from tftraining_operator.core.attempts import not_behind
from tftraining_operator.core.budgeting import Budgeting
from tftraining_operator.core.conditions import find, is_finished
from tftraining_operator.core.decide import decide
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.events import Actions, events_of
from tftraining_operator.core.facts import NO_QUEUE, Facts, QueueFacts
from tftraining_operator.core.gang import SchedulerUnavailableError
from tftraining_operator.core.job import InvalidJobError, Job, is_ours, parse_job
from tftraining_operator.core.naming import bucket, pod_name
from tftraining_operator.core.networking import Networking
from tftraining_operator.core.observed import Observed, observe
from tftraining_operator.core.pace import Pace
from tftraining_operator.core.patch import status_patch
from tftraining_operator.core.plan import Plan, make_plan
from tftraining_operator.core.pod_metadata import PodMetadata, pod_metadata
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.policies.isolation import isolation
from tftraining_operator.core.progress import (
    WRITES_PER_SECOND,
    asked_within,
    is_progress_only,
    news_due,
    next_write,
    only_reports,
    told_by,
    write_interval,
)
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.settling import goes_on, settled
from tftraining_operator.core.starting import hold_time, only_starts
from tftraining_operator.core.status import compute_status, held_status
from tftraining_operator.core.trainer_image import trainer_image
from tftraining_operator.reconcile.applier import Applier, Outcome
from tftraining_operator.reconcile.errors import NotFoundError
from tftraining_operator.reconcile.memory import Memory
from tftraining_operator.reconcile.objects import NameConflictError
from tftraining_operator.reconcile.protocols import (
    Api,
    Record,
    ReportSource,
    StatusObserver,
    Target,
)
from tftraining_operator.reconcile.queue_facts import read_queue_facts
from tftraining_operator.reconcile.rejection import Rejection, rejected
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind, Store
from tftraining_operator.reconcile.workqueue import Routine

_Object = dict[str, Any]


class Reconciler:
    """Makes the cluster what a job asks for, one pass at a time."""

    def __init__(
        self,
        api: Api,
        store: Store,
        reports: ReportSource,
        record: Record,
        *,
        trainer_image: str,
        pod_metadata: PodMetadata = PodMetadata(),  # noqa: B008 - frozen
        clock: Callable[[], datetime],
        offer: Callable[[str], Offer] = lambda _namespace: Offer(),
        networking: Callable[[str], Networking] = lambda _namespace: Networking(),
        budgeting: Callable[[str], Budgeting] = lambda _namespace: Budgeting(),
        observe: StatusObserver = lambda _raw, _before, _after: None,
        give_way: Callable[[JobKey], bool] = lambda _key: False,
        shards: int = 1,
    ) -> None:
        """`offer`, `networking` and `budgeting` tell what can be used in a namespace.

        `give_way` asks for a later pass over a job if others wait, and tells whether they do.

        Of so many `shards` this process serves one: it makes its share of the calls at once.
        """
        self._api = api
        self._store = store
        self._reports = reports
        self._record = record
        self._trainer_image = trainer_image
        self._pod_metadata = pod_metadata
        self._clock = clock
        self._offer = offer
        self._networking = networking
        self._budgeting = budgeting
        self._observe_status = observe
        self._give_way = give_way
        self._applier = Applier(api, store, shards)
        self._memories: dict[JobKey, Memory] = {}
        self._pace = Pace(WRITES_PER_SECOND)

    async def __call__(self, key: JobKey) -> float | None:
        """Do one pass; return in how many seconds to do another though nothing changes."""
        raw = self._store.job(key)
        if raw is None or "deletionTimestamp" in raw["metadata"] or not is_ours(raw):
            self.forget(key)
            return None
        now = self._clock()
        try:
            return await self._pass(key, raw, now)
        except InvalidJobError as problem:
            return await self._reject(key, raw, Reason.INVALID_SPEC, str(problem), now)
        except InvalidTemplateError as problem:
            await self._give_back(key, raw, now)
            return await self._reject(key, raw, Reason.INVALID_TEMPLATE, str(problem), now)
        except NameConflictError as problem:
            return await self._reject(key, raw, Reason.NAME_CONFLICT, str(problem), now)
        except SchedulerUnavailableError as problem:
            reason, known = Reason.SCHEDULER_UNAVAILABLE, problem.is_known
            if known:
                await self._give_back(key, raw, now, only_quota=True)
            return await self._reject(key, raw, reason, str(problem), now, may_end=known)

    async def _pass(self, key: JobKey, raw: _Object, now: datetime) -> float | None:
        job = parse_job(raw, now)
        if job.unsupported:
            # A newer operator started it: whatever we did could only harm it.
            await self._write(key, raw, job, held_status(job, now), actions=Actions(), now=now)
            return None
        memory = self._memory(key, job)
        memory.forget_refusals(now)
        pods = partial(self._store.children, Kind.POD, key)
        image = trainer_image(job, pods, self._trainer_image)
        given = pod_metadata(job, self._pod_metadata)
        prepared = False
        if _is_new(job) and memory.judged != job.meta.generation:
            samples = desired.samples(job, image, given)
            prepared = await self._prepare(key, job, memory, samples, now)
        observed = await self._look(key, job, memory, now)
        job = not_behind(job, observed)
        self._ask(key, job, observed, memory, now)
        queue = NO_QUEUE
        if self._offer(key.namespace).kueue:
            queue = await read_queue_facts(self._api, job, observed)
        decision = decide(job, observed, self._facts(key, memory, queue), now)
        plan = make_plan(job, observed, decision, image, given)
        self._note_urgent(decision, plan, now)
        before = self._store.mark()
        outcome = await self._apply(job, plan, memory, created_service=prepared)
        if plan.delete_job:
            return None
        _note(memory, outcome, now)
        decision = _carried_out(decision, now)
        if decision.phase is Phase.DISPATCHED:
            memory.note_rest()
            memory.note_told()  # nothing of ours
            return _next_look(decision, memory, None, now)
        actions = memory.untold
        if _creates_first(job, plan, outcome) and self._give_way(key):
            return None
        if outcome.ending or self._store.mark() != before:
            observed = self._observe(key, job, memory, now)
        if _replaced_is_gone(plan, observed):
            return 0.0
        facts = self._facts(key, memory, queue)
        status = compute_status(
            job, observed, decision, facts, now, trainer_image=image, given=given
        )
        following = partial(
            settled, observed=observed, facts=facts, now=now, trainer_image=image, given=given
        )
        return await self._tell(
            key,
            raw,
            job,
            status,
            memory=memory,
            decision=decision,
            following=following,
            actions=actions,
            now=now,
        )

    async def _apply(
        self, job: Job, plan: Plan, memory: Memory, *, created_service: bool
    ) -> Outcome:
        """Carry out a plan; what was done is told later, also where another call fails."""
        outcome = Outcome(created_service=created_service)
        try:
            return await self._applier.apply(
                job, plan, carefully=memory.was_refused, outcome=outcome
            )
        finally:
            memory.untold = memory.untold + _actions(job, plan, outcome)

    async def _tell(
        self,
        key: JobKey,
        raw: _Object,
        job: Job,
        status: Status,
        *,
        memory: Memory,
        decision: Decision,
        following: Callable[[Job], Decision | None],
        actions: Actions,
        now: datetime,
    ) -> float | None:
        """Write what a pass came to, at once or later; return when to do another pass.

        `following` tells what would be decided next about a job that changes nothing.
        """
        if not actions and only_starts(job.status, status):
            due = memory.hold(hold_time(self._store.job_count(), self._pace.write), now)
        else:
            due = next_write(job.status, status, now, write_interval(self._reports.count()))
        can_wait = job.status != status and only_reports(job.status, status)
        if due is None and can_wait:
            due = memory.begin(self._pace, now)
        written = due is None and await self._write(key, raw, job, status, actions=actions, now=now)
        if due is None:
            memory.note_told()
        memory.told = told_by(status if written else job.status)
        if written and not is_progress_only(job.status, status):
            # What was stored may have begun a deadline, and no watch event follows our own write.
            memory.note_written()
            if not goes_on(decision, now):
                return memory.next_pass_after_write()
            found = following(replace(job, status=status))
            if found is None:
                return Routine(memory.next_pass_after_write())
            decision = found
        memory.note_rest()
        return _next_look(decision, memory, due, now)

    def _note_urgent(self, decision: Decision, plan: Plan, now: datetime) -> None:
        """Let the progress of all jobs wait beside what a decision is to change."""
        if plan.changes_anything or decision.announced:
            self._pace.give_way(now)

    def forget(self, key: JobKey) -> None:
        """Keep nothing of a job, whose next pass is as its first."""
        self._reports.forget(key)
        self._memories.pop(key, None)

    def progress_due(self, key: JobKey) -> float:
        """Return in how many seconds a pass may write the steps that were reported last.

        Where they are news already, the job's turn is taken: the pass itself writes.
        """
        memory, report = self._memories.get(key), self._reports.reports(key).get(Role.CHIEF)
        if memory is None:
            return 0.0
        now, due = self._clock(), memory.turn_at
        if due is None and report is not None and report.has_steps:
            interval = write_interval(self._reports.count())
            due = now if memory.told is None else news_due(memory.told, report, interval)
            if due <= now:
                due = memory.turn(self._pace, now)
        return 0.0 if due is None else max(0.0, (due - now) / timedelta(seconds=1))

    async def _prepare(
        self, key: JobKey, job: Job, memory: Memory, samples: list[_Object], now: datetime
    ) -> bool:
        """Have the templates judged; tell whether the service was created meanwhile."""
        observed = self._observe(key, job, memory, now)
        wanted = not (
            observed.has_service
            or observed.service_occupied
            or job.spec.run_policy.suspend
            or job.dispatched
            or memory.was_refused
        )
        service = desired.service(job) if wanted else None
        policy = None
        if wanted and observed.network_policy is None:
            facts = self._facts(key, memory, NO_QUEUE)
            policy = isolation(job, observed, facts, now).policy.body(None)
        created = await self._applier.prepare(
            job, samples, now, service=service, network_policy=policy
        )
        memory.judged = job.meta.generation
        return created

    async def _give_back(
        self, key: JobKey, raw: _Object, now: datetime, *, only_quota: bool = False
    ) -> None:
        """Stop what is left of a job since it was suspended: since then its template may change.

        If it was resumed as well, it is suspended until its template is corrected. `only_quota` is
        for one that has no pods, and was admitted to a queue by which it cannot get any.
        """
        job = parse_job(raw, now)
        memory = self._memory(key, job)
        observed = self._observe(key, job, memory, now)
        has_any = observed.workload if only_quota else observed.pods or observed.workload
        is_running = job.status.start_time is not None or (only_quota and observed.pods)
        if is_running or not has_any:
            return
        policy = job.spec.run_policy.model_copy(update={"suspend": True})
        job = replace(job, spec=job.spec.model_copy(update={"run_policy": policy}))
        decision = decide(job, observed, self._facts(key, memory, NO_QUEUE), now)
        if decision.phase is Phase.SUSPENDED:
            plan = make_plan(job, observed, decision, self._trainer_image)
            outcome = await self._applier.apply(job, plan, carefully=memory.was_refused)
            _note(memory, outcome, now)

    async def _look(self, key: JobKey, job: Job, memory: Memory, now: datetime) -> Observed:
        """Observe a job; what was there, is needed and is not seen is read, as far as it exists."""
        asked = set[tuple[Kind, str]]()
        while True:
            observed = self._observe(key, job, memory, now)
            unseen = _unseen(job, observed, self._offer(key.namespace))
            if (found := next((each for each in unseen if each not in asked), None)) is None:
                return observed
            asked.add(found)
            kind, name = found
            with suppress(NotFoundError):
                self._store.put(kind, await self._api.get(kind, job.namespace, name))

    def _observe(self, key: JobKey, job: Job, memory: Memory, now: datetime) -> Observed:
        pods = self._store.children(Kind.POD, key)
        groups = {gang: self._store.children(kind, key) for gang, kind in GROUPS.items()}
        services = self._store.children(Kind.SERVICE, key)
        observed = observe(
            job,
            pods,
            services,
            now,
            groups,
            network_policies=self._store.children(Kind.NETWORK_POLICY, key),
            disruption_budgets=self._store.children(Kind.DISRUPTION_BUDGET, key),
            workloads=self._store.children(Kind.WORKLOAD, key),
        )
        return memory.settle(observed, now)

    def _facts(self, key: JobKey, memory: Memory, queue: QueueFacts) -> Facts:
        return memory.facts(
            self._reports.reports(key),
            self._offer(key.namespace),
            self._networking(key.namespace),
            self._budgeting(key.namespace),
            queue,
        )

    def _ask(
        self, key: JobKey, job: Job, observed: Observed, memory: Memory, now: datetime
    ) -> None:
        self._reports.watch(key, {} if is_finished(job.status) else _targets(job, observed))
        memory.ask(observed.get(Role.CHIEF), now + asked_within(self._reports.count()))

    async def _reject(
        self,
        key: JobKey,
        raw: _Object,
        reason: Reason,
        problem: str,
        now: datetime,
        *,
        may_end: bool = True,
    ) -> float | None:
        self._reports.forget(key)
        found: Rejection = rejected(raw, reason, problem, now, may_end=may_end)
        if found.status is not None:
            patch = status_patch(raw.get("status") or {}, found.status)
            if await self._patch(key, raw, patch):
                self._observe_status(raw, found.before, found.status)
                events = events_of(found.before, found.status, Actions(), now)
                await self._record(ObjectMeta.model_validate(raw["metadata"]), events)
        return found.look_again

    async def _write(
        self,
        key: JobKey,
        raw: _Object,
        job: Job,
        status: Status,
        *,
        actions: Actions,
        now: datetime,
    ) -> bool:
        """Write a status and its events if it says something new. Raises ConflictError."""
        patch = status_patch(raw.get("status") or {}, status)
        if not await self._patch(key, raw, patch):
            return False
        self._observe_status(raw, job.status, status)
        await self._record(job.meta, events_of(job.status, status, actions, now))
        return True

    async def _patch(self, key: JobKey, raw: _Object, patch: _Object) -> bool:
        if not patch:
            return False
        # With whatever is to be said: a write for it alone, of each job after an upgrade, is not.
        own = bucket(*key)
        if (raw.get("status") or {}).get("bucket") != own:
            patch = {**patch, "bucket": own}
        metadata, began = raw["metadata"], self._clock()
        try:
            answer = await self._api.patch_status(
                key.namespace, key.name, metadata["resourceVersion"], patch
            )
        except NotFoundError:
            # The job is gone; its deletion has not reached the watch yet.
            self._store.forget(Kind.JOB, key, key.name, metadata["uid"])
            self.forget(key)
            return False
        self._pace.took(self._clock() - began)
        self._store.put(Kind.JOB, answer)
        # An older CRD prunes fields that it does not know: then nothing was written, nor will be.
        return bool(answer["metadata"]["resourceVersion"] != metadata["resourceVersion"])

    def _memory(self, key: JobKey, job: Job) -> Memory:
        known = self._memories.get(key)
        if known is None or known.job_uid != job.uid:
            known = self._memories[key] = Memory(job.uid)
        return known


def _is_new(job: Job) -> bool:
    """Tell whether this generation's templates have not been judged yet.

    Those of a started job have been: they change only while it has no pods.
    """
    accepted = find(job.status.conditions, ConditionType.ACCEPTED)
    judged = (
        accepted is not None
        and accepted.status == "True"
        and accepted.observed_generation == job.meta.generation
    )
    return not judged and job.status.start_time is None and not is_finished(job.status)


def _unseen(job: Job, observed: Observed, offer: Offer) -> Iterator[tuple[Kind, str]]:
    """Yield what was there, is needed and is not seen, which is no evidence that it is gone.

    A watch may be late; and of a Workload from which somebody takes our label, it tells the end.
    """
    if _misses_chief(job, observed):
        yield Kind.POD, pod_name(job.name, Role.CHIEF, 0)
    if offer.kueue and (name := queueing.unseen_workload(job, observed)) is not None:
        yield Kind.WORKLOAD, name


def _misses_chief(job: Job, observed: Observed) -> bool:
    """Tell whether a chief that was there and is needed is not seen."""
    needed = not (
        is_finished(job.status)
        or job.status.chief_completion_time is not None
        or job.spec.run_policy.suspend
        or job.dispatched
    )
    return needed and job.status.chief_uid is not None and observed.get(Role.CHIEF) is None


def _targets(job: Job, observed: Observed) -> dict[Role, Target]:
    limits = {Role.CHIEF: job.spec.run_policy.stall_timeout_seconds, Role.EVALUATOR: None}
    return {
        role: Target(pod.uid, pod.progress_url, limit)
        for role, limit in limits.items()
        if (pod := observed.get(role)) is not None and pod.progress_url
    }


def _note(memory: Memory, outcome: Outcome, now: datetime) -> None:
    memory.corrected |= dict.fromkeys(outcome.corrected, now)
    memory.note_ending(outcome.ending, now)
    if outcome.has_refusals:
        memory.note_refusals(
            outcome.refused,
            frozenset(outcome.held),
            outcome.undeletable,
            now,
            soon=outcome.unanswered,
        )
    elif outcome.created:
        memory.note_success()


def _carried_out(decision: Decision, now: datetime) -> Decision:
    """Return a decision that is carried out: after a write to a Workload there may be another.

    A pass makes one of them, and no watch tells of it anew.
    """
    return replace(decision, look_again=now) if decision.workload is not None else decision


def _creates_first(job: Job, plan: Plan, outcome: Outcome) -> bool:
    """Tell whether a pass has only created pods of a job that had none: telling it can wait."""
    beside = plan.removals or plan.groups or plan.workload or outcome.has_refusals
    return bool(job.status.start_time is None and outcome.created and not beside)


def _replaced_is_gone(plan: Plan, observed: Observed) -> bool:
    """Tell whether a replaced pod is gone already: one status tells of that and of its successor.

    That it ended was stored before it was deleted.
    """
    return any(
        removal.is_replacement and observed.get(removal.pod.role, removal.pod.index) is None
        for removal in plan.removals
    )


def _actions(job: Job, plan: Plan, outcome: Outcome) -> Actions:
    return Actions(
        created=outcome.created,
        created_service=outcome.created_service,
        replaced={
            removal.pod.name: removal.cause
            for removal in plan.removals
            if removal.is_replacement and removal.pod.name in outcome.deleted
        },
        repairs=job.repairs,
    )


def _next_look(
    decision: Decision, memory: Memory, due: datetime | None, now: datetime
) -> float | None:
    """Return when to look again: the decision says it, but for what came of carrying it out."""
    moments = [m for m in (decision.look_again, memory.retry_at, due) if m is not None]
    if not moments:
        return None
    seconds = max(0.0, (min(moments) - now) / timedelta(seconds=1))
    return Routine(seconds) if min(moments) == due else seconds
