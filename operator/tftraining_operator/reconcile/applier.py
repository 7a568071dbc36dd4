"""Carries out a plan: deletes, then what pods need, pods, Workload, and PodDisruptionBudget.

objects.py makes the calls about one object, workload_writer.py those about a Workload, and
refusals.py says why one was refused.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.advice import deletion_advice
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.history import was_started
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import disruption_budget_name
from tftraining_operator.core.plan import NewPod, Plan
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.text import printable
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.judgements import Judgements
from tftraining_operator.reconcile.objects import NameConflictError, Objects
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.refusals import forbidden, pod_refusal
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind, Store
from tftraining_operator.reconcile.workload_writer import WorkloadWriter

logger = logging.getLogger(__name__)

_Object = dict[str, Any]

FIRST_BATCH = 8
"""Pods that are created at once before it is known that quota and admission let them pass."""
_REFUSALS = (errors.ForbiddenError, errors.InvalidObjectError, NameConflictError)
"""Of a NetworkPolicy, which are told and stop no job that does not ask for it."""


@dataclass(slots=True)
class Outcome:
    """What became of a plan."""

    deleted: list[str] = field(default_factory=list)
    """Names of pods that were told to end, each by a call of its own."""
    created: list[str] = field(default_factory=list)
    created_service: bool = False
    refused: dict[str, Cause] = field(default_factory=dict)
    """Pods, or other objects, that quota, admission or validation refused, by name."""
    held: set[str] = field(default_factory=set)
    """Pods that were refused, or not tried because others were; a budget that was not written."""
    corrected: list[str] = field(default_factory=list)
    """Names of objects that somebody had changed, and that are now as they have to be."""
    ending: list[str] = field(default_factory=list)
    """uids of pods that were told to end by a call that does not answer with them."""
    undeletable: dict[str, Cause] = field(default_factory=dict)
    """Pods whose deletion was refused, by name."""
    unanswered: bool = False
    """Whether something was refused for want of a webhook's answer: it may give one in a moment."""

    def note(self, error: Exception) -> None:
        """Note whether it was a webhook that did not answer which an object was refused for."""
        self.unanswered |= isinstance(error, errors.AdmissionUnavailableError)

    @property
    def has_refusals(self) -> bool:
        """Whether anything was refused, or is to be tried again later."""
        return bool(self.refused or self.held or self.undeletable)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a pod was not created."""

    cause: Cause
    holds_others: bool
    """Whether no more pods are tried: quota or admission would refuse them as well."""


class Applier:
    """Makes the calls of a plan and lays the answers over the store."""

    def __init__(self, api: Api, store: Store, shards: int = 1) -> None:
        self._api = api
        self._objects = Objects(api, store, shards)
        self._workloads = WorkloadWriter(api, store, self._objects)
        self._judgements = Judgements()

    async def prepare(
        self,
        job: Job,
        samples: Sequence[_Object],
        now: datetime,
        *,
        service: _Object | None = None,
        network_policy: _Object | None = None,
    ) -> bool:
        """Let the API server judge sample pods; return whether the service was created meanwhile.

        It is not asked for what it has accepted lately. The NetworkPolicy is created, too.

        Raises InvalidTemplateError with the API server's words, ApiError; NameConflictError for a
        job that was never started.
        """

        def making(kind: Kind, body: _Object | None) -> Iterator[Coroutine[Any, Any, bool]]:
            if body is not None:
                yield self._objects.create(job, kind, body)

        samples = self._judgements.unknown(samples, now)
        tries = (self._api.create(Kind.POD, sample, dry_run=True) for sample in samples)
        key = JobKey.of(job)
        made, policies, results = await asyncio.gather(
            self._objects.together(key, making(Kind.SERVICE, service)),
            self._objects.together(key, making(Kind.NETWORK_POLICY, network_policy)),
            self._objects.together(key, tries),
        )
        for sample, result in zip(samples, results, strict=True):
            if not isinstance(result, BaseException):
                self._judgements.accept(sample, now)
            if isinstance(result, errors.InvalidObjectError):
                role = sample["metadata"]["labels"][keys.LABEL_ROLE]
                raise InvalidTemplateError(
                    f"the pod template of {role} is refused: {result.message}; correct it in "
                    f"spec.template or spec.{role}.template and apply the job again"
                )
            # A name in use, quota or admission may pass when the pod itself is created.
            if isinstance(result, BaseException) and not isinstance(
                result, errors.AlreadyExistsError | errors.ForbiddenError
            ):
                raise result
        # What is refused is tried again, and told, when the plan is carried out.
        refusals = (
            errors.ForbiddenError,
            *((NameConflictError,) if was_started(job.status) else ()),
        )
        _raise_first(each for each in made if not isinstance(each, refusals))
        _raise_first(each for each in policies if not isinstance(each, _REFUSALS))
        return True in made

    async def apply(
        self, job: Job, plan: Plan, *, carefully: bool, outcome: Outcome | None = None
    ) -> Outcome:
        """Carry out a plan; `carefully` after a refusal.

        What is done is noted in `outcome` as it comes, so that it is known if a later call fails.

        Raises ApiError; NameConflictError for a job that was never started.
        """
        key, outcome = JobKey.of(job), outcome or Outcome()
        outcome.refused |= plan.refused
        outcome.held |= set(plan.refused)
        if plan.delete_job:
            await self._objects.delete(Kind.JOB, key, job.name, job.uid)
            return outcome
        await self._delete_pods(job, plan, outcome)
        if plan.delete_service:
            await self._delete_service(job, outcome)
        if plan.delete_network_policy:
            try:
                await self._objects.delete_own(Kind.NETWORK_POLICY, job)
            except errors.ForbiddenError as error:
                # It goes with the job at the latest.
                logger.warning("%s: cannot delete its NetworkPolicy: %s", key, error.message)
        if (
            # Without the service no pod would find another.
            await self._create_service(job, plan, outcome)
            and await self._write_network_policy(job, plan, outcome)
            and await self._change_groups(job, plan, outcome)
        ):
            await self._create_pods(job, plan.pods, outcome, batch=1 if carefully else FIRST_BATCH)
            if plan.workload is not None:
                outcome.refused |= await self._workloads.change(job, plan.workload)
        else:
            outcome.held |= {pod.name for pod in plan.pods}
        await self._change_disruption_budget(job, plan, outcome)
        return outcome

    async def _delete_pods(self, job: Job, plan: Plan, outcome: Outcome) -> None:
        if plan.servers_are_done and await self._objects.delete_servers(job, plan.removals):
            outcome.ending = [removal.pod.uid for removal in plan.removals]
            return
        key = JobKey.of(job)
        deleted = await self._objects.together(
            key,
            (
                self._objects.delete(
                    Kind.POD, key, removal.pod.name, removal.pod.uid, grace=removal.grace
                )
                for removal in plan.removals
            ),
        )
        for removal, result in zip(plan.removals, deleted, strict=True):
            if isinstance(result, errors.ForbiddenError):
                outcome.undeletable[removal.pod.name] = Cause(
                    Reason.DELETION_REFUSED, printable(result.message)
                )
            elif not isinstance(result, BaseException):
                outcome.deleted.append(removal.pod.name)
        _raise_first(each for each in deleted if not isinstance(each, errors.ForbiddenError))

    async def _delete_service(self, job: Job, outcome: Outcome) -> None:
        """Delete the service to create it again. That this is refused must not stop a job."""
        try:
            await self._objects.delete_own(Kind.SERVICE, job)
        except errors.ForbiddenError as error:
            why = printable(error.message)
            message = (
                "somebody changed it, and it could not be deleted to be created again:"
                f" {why}; {deletion_advice(why, 'it')}"
            )
            outcome.refused[job.name] = Cause(Reason.DELETION_REFUSED, message)

    async def _create_service(self, job: Job, plan: Plan, outcome: Outcome) -> bool:
        """Create the service; return whether pods may be created."""
        if plan.service is None:
            return True
        try:
            if await self._objects.create(job, Kind.SERVICE, plan.service):
                outcome.created_service = True
        except errors.ForbiddenError as error:
            outcome.note(error)
            outcome.refused[job.name] = forbidden(error)
            return False
        except NameConflictError as error:
            if not was_started(job.status):
                raise
            # A job that runs trains on; what it has lost is made again when the name is free.
            outcome.refused[job.name] = Cause(Reason.NAME_CONFLICT, str(error))
            return False
        return True

    async def _write_network_policy(self, job: Job, plan: Plan, outcome: Outcome) -> bool:
        """Create or correct the NetworkPolicy; return whether pods may be created."""
        if (body := plan.network_policy) is None:
            return True
        await self._write(job, Kind.NETWORK_POLICY, body, outcome)
        return body["metadata"]["name"] not in outcome.refused or not plan.requires_network_policy

    async def _change_disruption_budget(self, job: Job, plan: Plan, outcome: Outcome) -> None:
        """Delete, create or correct it. That this fails must not stop a job that trains."""
        kind = Kind.DISRUPTION_BUDGET
        try:
            if plan.delete_disruption_budget:
                await self._objects.delete_own(kind, job)
            elif plan.disruption_budget is not None:
                await self._write(job, kind, plan.disruption_budget, outcome)
        except errors.NotLeadingError:
            raise
        except errors.ApiError as error:
            # Of webhooks that do not answer as well, and where the store is behind.
            outcome.held.add(disruption_budget_name(job.name))
            logger.warning("%s/%s: cannot write its %s: %s", job.namespace, job.name, kind, error)

    async def _write(self, job: Job, kind: Kind, body: _Object, outcome: Outcome) -> None:
        """Create an object or, if the body has a uid, correct the one that exists."""
        name = body["metadata"]["name"]
        try:
            if "uid" in body["metadata"]:
                await self._objects.replace(job, kind, body)
                outcome.corrected.append(name)
            elif not await self._objects.create(job, kind, body):
                # It may not be as it has to be, or an earlier job's.
                raise errors.TransientError(f"{kind} {name} exists and was not known")
        except (errors.ForbiddenError, errors.InvalidObjectError) as error:
            outcome.note(error)
            outcome.refused[name] = Cause(Reason.REFUSED, printable(error.message))
        except NameConflictError as error:
            outcome.refused[name] = Cause(Reason.NAME_CONFLICT, str(error))

    async def _change_groups(self, job: Job, plan: Plan, outcome: Outcome) -> bool:
        """Delete and create scheduler's groups; return whether pods may be created."""
        key = JobKey.of(job)
        for known in plan.delete_groups:
            try:
                await self._objects.delete(GROUPS[known.scheduler], key, known.name, known.uid)
            except errors.ForbiddenError as error:
                # It goes with the job at the latest.
                logger.warning("%s: cannot delete group %s: %s", key, known.name, error.message)
        for gang, body in plan.groups:
            try:
                await self._objects.create(job, GROUPS[gang], body)
            except (
                errors.ForbiddenError,
                errors.InvalidObjectError,
                errors.NotFoundError,
            ) as error:
                outcome.note(error)
                missing = isinstance(error, errors.NotFoundError)
                reason = Reason.SCHEDULER_UNAVAILABLE if missing else Reason.REFUSED
                cause = Cause(reason, printable(error.message))
            except NameConflictError as error:
                if not was_started(job.status):
                    raise
                cause = Cause(Reason.NAME_CONFLICT, str(error))
            else:
                continue
            outcome.refused[body["metadata"]["name"]] = cause
            # To pods that are in none it is nothing: a job that runs goes on.
            return not plan.requires_groups
        return True

    async def _create_pods(
        self, job: Job, pods: Sequence[NewPod], outcome: Outcome, *, batch: int
    ) -> None:
        """Create pods in batches that double, up to the first refusal by quota or admission."""
        key, left = JobKey.of(job), list(pods)
        failed: list[Exception] = []
        while left:
            now, left = left[:batch], left[batch:]
            batch *= 2
            results = await self._objects.together(
                key, (self._create_pod(job, pod, outcome, failed) for pod in now)
            )
            stop = False
            for pod, result in zip(now, results, strict=True):
                if isinstance(result, _Refusal):
                    outcome.refused[pod.name] = result.cause
                    outcome.held.add(pod.name)
                    stop = stop or result.holds_others
                elif result is True:
                    outcome.created.append(pod.name)
            _raise_first([*failed, *results])
            if stop:
                outcome.held |= {pod.name for pod in left}
                return

    async def _create_pod(
        self, job: Job, pod: NewPod, outcome: Outcome, failed: list[Exception]
    ) -> bool | _Refusal:
        """Create a pod; return whether it was us who made it, or why it was refused.

        Of other errors the first is added to `failed`. None else is kept: with its traceback, each
        would hold the pod's body until all calls of the batch are over.
        """
        try:
            return await self._objects.create(job, Kind.POD, pod.make())
        except (errors.ApiError, NameConflictError) as error:
            if (cause := pod_refusal(job, error)) is not None:
                outcome.note(error)
                return _Refusal(cause, isinstance(error, errors.ForbiddenError))
            if not failed:
                failed.append(error)
            return False


def _raise_first(results: Iterable[object]) -> None:
    for result in results:
        if isinstance(result, BaseException):
            raise result
