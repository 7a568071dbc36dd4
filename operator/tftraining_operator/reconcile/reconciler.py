"""One pass over one job: read, parse, observe, decide, plan, apply, status, story."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core import desired
from tftraining_operator.core.conditions import find, is_finished
from tftraining_operator.core.decision import Phase, decide
from tftraining_operator.core.events import Actions, events_of
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import InvalidJobError, Job, parse_job
from tftraining_operator.core.observed import Observed, observe
from tftraining_operator.core.patch import merge_patch
from tftraining_operator.core.plan import Plan, make_plan
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.progress import next_write
from tftraining_operator.core.salvage import stored_status
from tftraining_operator.core.status import compute_status, rejected_status
from tftraining_operator.reconcile.applier import (
    Applier,
    NameConflictError,
    Outcome,
)
from tftraining_operator.reconcile.protocols import Api, Record, ReportSource, Target
from tftraining_operator.reconcile.store import JobKey, Kind, Store

_Object = dict[str, Any]

REFUSED_AGAIN_SECONDS = 15.0
"""A pod refused by quota or admission is tried again after this: nothing tells us sooner."""
NAME_CONFLICT_AGAIN_SECONDS = 30.0
"""A stranger that holds a name carries no label of ours: its end is not seen by a watch."""


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
        clock: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._store = store
        self._reports = reports
        self._record = record
        self._trainer_image = trainer_image
        self._clock = clock
        self._applier = Applier(api, store)

    async def __call__(self, key: JobKey) -> float | None:
        """Do one pass; return in how many seconds to do another though nothing changes."""
        raw = self._store.job(key)
        if raw is None or "deletionTimestamp" in raw["metadata"] or not _is_ours(raw):
            self._reports.forget(key)
            return None
        now = self._clock()
        try:
            job = parse_job(raw, now)
            _refuse_unsupported(job)
            prepared = _is_new(job) and await self._prepare(key, job)
            return await self._carry_out(key, raw, job, now, prepared=prepared)
        except InvalidJobError as problem:
            await self._reject(key, raw, keys.INVALID_SPEC, str(problem), now)
        except InvalidTemplateError as problem:
            await self._reject(key, raw, keys.INVALID_TEMPLATE, str(problem), now)
        except NameConflictError as problem:
            await self._reject(key, raw, "NameConflict", str(problem), now)
            return NAME_CONFLICT_AGAIN_SECONDS
        return None

    async def _prepare(self, key: JobKey, job: Job) -> bool:
        """Have the templates judged; tell whether the service was asked for meanwhile."""
        observed = self._observe(key, job)
        wanted = not (
            observed.has_service or observed.service_occupied or job.spec.run_policy.suspend
        )
        service = desired.service(job) if wanted else None
        await self._applier.prepare(job, desired.samples(job, self._trainer_image), service)
        return wanted

    async def _carry_out(
        self, key: JobKey, raw: _Object, job: Job, now: datetime, *, prepared: bool
    ) -> float | None:
        observed = self._observe(key, job)
        decision = decide(job, observed, now)
        reports = self._reports.reports(key)
        plan = make_plan(
            job, observed, decision, reports, now=now, trainer_image=self._trainer_image
        )
        outcome = await self._applier.apply(job, plan)
        if plan.delete_job:
            return None
        observed = self._observe(key, job)
        done = decision.phase is Phase.FINISHED
        self._reports.watch(key, {} if done else _targets(observed))
        facts = Facts(outcome.refused, self._reports.reports(key))
        status = compute_status(job, observed, decision, facts, now)
        due = next_write(job.status, status, now)
        wrote = due is None and await self._write(key, raw, status)
        if wrote:
            made_service = observed.has_service and (prepared or plan.service is not None)
            actions = Actions(outcome.created, made_service, plan.replaced)
            await self._record(job.meta, events_of(job.status, status, actions, now))
        if wrote and not outcome.refused:
            # What was stored began deadlines that this pass could not know, and no watch event
            # follows our own write: the store has it already.
            return 0.0
        return _wait(plan, outcome, due, now)

    def _observe(self, key: JobKey, job: Job) -> Observed:
        pods = self._store.children(Kind.POD, key)
        return observe(job, pods, self._store.children(Kind.SERVICE, key), self._clock())

    async def _reject(
        self, key: JobKey, raw: _Object, reason: str, problem: str, now: datetime
    ) -> None:
        self._reports.forget(key)
        meta = ObjectMeta.model_validate(raw["metadata"])
        created = raw["metadata"].get("creationTimestamp")
        before, _ = stored_status(raw.get("status"), created=created, now=now)
        status = rejected_status(before, meta.generation, reason, problem, now)
        if await self._write(key, raw, status):
            nothing = Actions(created=[], created_service=False, replaced={})
            await self._record(meta, events_of(before, status, nothing, now))

    async def _write(self, key: JobKey, raw: _Object, status: Status) -> bool:
        """Write a status if it says something new; tell whether it did. Raises ConflictError."""
        patch = merge_patch(raw.get("status") or {}, status.as_dict())
        if not patch:
            return False
        version = raw["metadata"]["resourceVersion"]
        answer = await self._api.patch_status(key.namespace, key.name, version, patch)
        self._store.put(Kind.JOB, answer)
        return True


def _is_ours(raw: _Object) -> bool:
    policy = (raw.get("spec") or {}).get("runPolicy") or {}
    return bool(policy.get("managedBy", keys.MANAGED_BY) == keys.MANAGED_BY)


def _refuse_unsupported(job: Job) -> None:
    if job.unsupported:
        raise InvalidJobError(job.unsupported)


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


def _targets(observed: Observed) -> dict[Role, Target]:
    return {
        role: Target(pod.uid, pod.progress_url)
        for role in (Role.CHIEF, Role.EVALUATOR)
        if (pod := observed.get(role)) is not None and pod.progress_url
    }


def _wait(plan: Plan, outcome: Outcome, due: datetime | None, now: datetime) -> float | None:
    waits = [(moment - now).total_seconds() for moment in (plan.wake_at, due) if moment]
    if outcome.refused:
        waits.append(REFUSED_AGAIN_SECONDS)
    return min(waits, default=None)
