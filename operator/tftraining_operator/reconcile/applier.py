"""Carries out a plan: deletes, then what pods need, pods, and Workload; only so many calls at once.

Every call may be repeated after a crash at any point: names are fixed, deletes name the uid.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tftraining_operator.api import keys
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import owned_by
from tftraining_operator.core.plan import Plan
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.text import printable
from tftraining_operator.core.workload_changes import WorkloadChange
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.limits import Limits
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind, Store

logger = logging.getLogger(__name__)

_Object = dict[str, Any]
_T = TypeVar("_T")

FIRST_BATCH = 8
"""Pods that are created at once before it is known that quota and admission let them pass."""


class NameConflictError(Exception):
    """A name that the job needs belongs to somebody else; the text says what to do."""


@dataclass(slots=True)
class Outcome:
    """What became of a plan."""

    created: list[str] = field(default_factory=list)
    created_service: bool = False
    refused: dict[str, Cause] = field(default_factory=dict)
    """Pods, or other objects, that quota, admission or validation refused, by name."""
    held: set[str] = field(default_factory=set)
    """Pods that were refused, or not tried because others were."""
    corrected_network_policy: bool = False
    undeletable: dict[str, Cause] = field(default_factory=dict)
    """Pods whose deletion was refused, by name."""

    @property
    def has_refusals(self) -> bool:
        """Whether anything was refused."""
        return bool(self.refused or self.undeletable)


class Applier:
    """Makes the calls of a plan and lays the answers over the store."""

    def __init__(self, api: Api, store: Store) -> None:
        self._api = api
        self._store = store
        self._limits = Limits()

    async def prepare(self, job: Job, samples: Sequence[_Object], service: _Object | None) -> bool:
        """Let the API server judge sample pods; return whether the service was created meanwhile.

        Raises InvalidTemplateError with the API server's words, ApiError, NameConflictError.
        """
        services = [service] if service is not None else []
        making = (self._create(job, Kind.SERVICE, body) for body in services)
        tries = (self._api.create(Kind.POD, sample, dry_run=True) for sample in samples)
        key = JobKey(job.namespace, job.name)
        made, results = await asyncio.gather(
            self._together(key, making), self._together(key, tries)
        )
        for sample, result in zip(samples, results, strict=True):
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
        # A refused service is tried again, and told, when the plan is carried out.
        _raise_first(each for each in made if not isinstance(each, errors.ForbiddenError))
        return True in made

    async def apply(self, job: Job, plan: Plan, *, carefully: bool) -> Outcome:
        """Carry out a plan; `carefully` after a refusal. Raises ApiError, NameConflictError."""
        key = JobKey(job.namespace, job.name)
        outcome = Outcome()
        if plan.delete_job:
            await self._delete(Kind.JOB, key, job.name, job.uid)
            return outcome
        await self._delete_pods(key, plan, outcome)
        if plan.delete_service:
            await self._delete_own(Kind.SERVICE, job)
        if plan.delete_network_policy:
            try:
                await self._delete_own(Kind.NETWORK_POLICY, job)
            except errors.ForbiddenError as error:
                # It goes with the job at the latest.
                logger.warning("%s: cannot delete its NetworkPolicy: %s", key, error.message)
        if plan.service is not None and not await self._create_service(job, plan.service, outcome):
            # Without the service no pod would find another.
            outcome.held |= {body["metadata"]["name"] for body in plan.pods}
            return outcome
        if not (
            await self._write_network_policy(job, plan, outcome)
            and await self._change_groups(job, plan, outcome)
        ):
            outcome.held |= {body["metadata"]["name"] for body in plan.pods}
            return outcome
        await self._create_pods(job, plan.pods, outcome, batch=1 if carefully else FIRST_BATCH)
        if plan.workload is not None:
            await self._change_workload(job, plan.workload, outcome)
        return outcome

    async def _delete_pods(self, key: JobKey, plan: Plan, outcome: Outcome) -> None:
        deleted = await self._together(
            key,
            (
                self._delete(Kind.POD, key, removal.pod.name, removal.pod.uid, grace=removal.grace)
                for removal in plan.removals
            ),
        )
        for removal, result in zip(plan.removals, deleted, strict=True):
            if isinstance(result, errors.ForbiddenError):
                outcome.undeletable[removal.pod.name] = Cause(
                    Reason.DELETION_REFUSED, printable(result.message)
                )
            elif isinstance(result, BaseException):
                raise result

    async def _delete_own(self, kind: Kind, job: Job) -> None:
        key = JobKey(job.namespace, job.name)
        for raw in self._store.children(kind, key):
            if owned_by(raw, job.uid):
                await self._delete(kind, key, raw["metadata"]["name"], raw["metadata"]["uid"])

    async def _create_service(self, job: Job, service: _Object, outcome: Outcome) -> bool:
        try:
            outcome.created_service = await self._create(job, Kind.SERVICE, service)
        except errors.ForbiddenError as error:
            outcome.refused[job.name] = _forbidden(error)
            return False
        return True

    async def _write_network_policy(self, job: Job, plan: Plan, outcome: Outcome) -> bool:
        """Create or correct the NetworkPolicy; return whether pods may be created."""
        if (body := plan.network_policy) is None:
            return True
        name = body["metadata"]["name"]
        try:
            if "uid" in body["metadata"]:
                await self._replace(job, Kind.NETWORK_POLICY, body)
                outcome.corrected_network_policy = True
            elif not await self._create(job, Kind.NETWORK_POLICY, body):
                # It may not be as it has to be, or an earlier job's.
                raise errors.TransientError(f"NetworkPolicy {name} exists and was not known")
        except (errors.ForbiddenError, errors.InvalidObjectError) as error:
            outcome.refused[name] = Cause(Reason.REFUSED, printable(error.message))
        except NameConflictError as error:
            outcome.refused[name] = Cause(Reason.NAME_CONFLICT, str(error))
        return name not in outcome.refused or not plan.requires_network_policy

    async def _change_groups(self, job: Job, plan: Plan, outcome: Outcome) -> bool:
        """Delete and create scheduler's groups; return whether pods may be created."""
        key = JobKey(job.namespace, job.name)
        for known in plan.delete_groups:
            try:
                await self._delete(GROUPS[known.scheduler], key, known.name, known.uid)
            except errors.ForbiddenError as error:
                # It goes with the job at the latest.
                logger.warning("%s: cannot delete group %s: %s", key, known.name, error.message)
        if plan.group is None:
            return True
        gang, body = plan.group
        try:
            await self._create(job, GROUPS[gang], body)
        except (errors.ForbiddenError, errors.InvalidObjectError, errors.NotFoundError) as error:
            message = printable(error.message)
            missing = isinstance(error, errors.NotFoundError)
            reason = Reason.SCHEDULER_UNAVAILABLE if missing else Reason.REFUSED
            outcome.refused[body["metadata"]["name"]] = Cause(reason, message)
            return False
        return True

    async def _change_workload(self, job: Job, change: WorkloadChange, outcome: Outcome) -> None:
        """Write what Kueue is told. That it cannot be written must not stop a job that trains."""
        key, known = JobKey(job.namespace, job.name), change.known
        name = known.name if known is not None else (change.body or {})["metadata"]["name"]
        try:
            if known is None:
                await self._create(job, Kind.WORKLOAD, change.body or {})
            elif change.delete:
                await self._delete(Kind.WORKLOAD, key, name, known.uid)
            else:
                await self._patch_workload(job, change, known)
        except errors.NotLeadingError:
            raise
        except errors.ConflictError:
            # Kueue has written as well: look at that first.
            await self._read_workload(key, name)
            raise
        except errors.NotFoundError as error:
            if known is not None:
                self._store.forget(Kind.WORKLOAD, key, name, known.uid)
            else:
                outcome.refused[name] = Cause(Reason.SCHEDULER_UNAVAILABLE, _said(error))
        except errors.ApiError as error:
            # Of webhooks that do not answer as well: Kueue may be away for an upgrade.
            outcome.refused[name] = Cause(Reason.REFUSED, _said(error))

    async def _patch_workload(self, job: Job, change: WorkloadChange, known: Workload) -> None:
        for patch, subresource in ((change.body, ""), (change.status, "status")):
            if patch is not None:
                body = patch if not subresource else {"status": patch}
                answer = await self._api.patch_workload(
                    job.namespace, known.name, known.version, body, subresource=subresource
                )
                self._store.put(Kind.WORKLOAD, answer)

    async def _read_workload(self, key: JobKey, name: str) -> None:
        with contextlib.suppress(errors.ApiError):
            self._store.put(Kind.WORKLOAD, await self._api.get(Kind.WORKLOAD, key.namespace, name))

    async def _create_pods(
        self, job: Job, bodies: Sequence[_Object], outcome: Outcome, *, batch: int
    ) -> None:
        """Create pods in batches that double, up to the first refusal by quota or admission."""
        key, left = JobKey(job.namespace, job.name), list(bodies)
        while left:
            now, left = left[:batch], left[batch:]
            batch *= 2
            results = await self._together(key, (self._create(job, Kind.POD, body) for body in now))
            stop = False
            for body, result in zip(now, results, strict=True):
                name = body["metadata"]["name"]
                if (cause := _refusal(job, result)) is not None:
                    outcome.refused[name] = cause
                    outcome.held.add(name)
                    stop = stop or isinstance(result, errors.ForbiddenError)
                elif isinstance(result, BaseException):
                    raise result
                elif result:
                    outcome.created.append(name)
            if stop:
                outcome.held |= {body["metadata"]["name"] for body in left}
                return

    async def _create(self, job: Job, kind: Kind, body: _Object) -> bool:
        """Create an object; return whether it was us who made it."""
        name = body["metadata"]["name"]
        try:
            self._store.put(kind, await self._api.create(kind, body))
        except errors.AlreadyExistsError:
            await self._adopt(job, kind, name)
            return False
        logger.debug("%s/%s: created %s %s", job.namespace, job.name, kind.value, name)
        return True

    async def _replace(self, job: Job, kind: Kind, body: _Object) -> None:
        """Write over an object. Raises ConflictError, NotFoundError if the store is behind."""
        metadata = body["metadata"]
        try:
            self._store.put(kind, await self._api.replace(kind, body))
        except errors.NotFoundError:
            key = JobKey(job.namespace, job.name)
            self._store.forget(kind, key, metadata["name"], metadata["uid"])
            raise
        logger.debug("%s/%s: corrected %s %s", job.namespace, job.name, kind, metadata["name"])

    async def _adopt(self, job: Job, kind: Kind, name: str) -> None:
        """Take an object whose name we need for what it is: ours already, or in our way."""
        try:
            found = await self._api.get(kind, job.namespace, name)
        except errors.NotFoundError as error:
            raise errors.TransientError(f"{name} came and went") from error
        owners = found["metadata"].get("ownerReferences") or []
        # One of an earlier job of this name is observed as being in the way until it is collected.
        if any(o.get("kind") == keys.KIND and o.get("name") == job.name for o in owners):
            self._store.put(kind, found)
            return
        raise NameConflictError(
            f"{kind.value.lower()} {name} exists and does not belong to this job; delete it, or "
            "give the job another name"
        )

    async def _delete(
        self, kind: Kind, key: JobKey, name: str, uid: str, *, grace: int | None = None
    ) -> None:
        try:
            answer = await self._api.delete(kind, key.namespace, name, uid, grace=grace)
        except (errors.NotFoundError, errors.ConflictError):
            # Gone already, or gone and made again: the store is behind.
            self._store.forget(kind, key, name, uid)
            return
        logger.debug("%s/%s: deleted %s %s", *key, kind.value, name)
        if _is_going(answer):
            self._store.put(kind, answer)
        else:
            self._store.forget(kind, key, name, uid)

    async def _together(
        self, key: JobKey, calls: Iterable[Coroutine[Any, Any, _T]]
    ) -> list[_T | BaseException]:
        async def one(call: Coroutine[Any, Any, _T]) -> _T:
            async with self._limits.one(key):
                return await call

        made = list(calls)
        try:
            return await asyncio.gather(*(one(call) for call in made), return_exceptions=True)
        finally:
            # Cancelled while they waited for their turn, some never began.
            for call in made:
                call.close()


def _is_going(answer: _Object) -> bool:
    """Tell from a deletion's answer whether the object still exists: for its grace, or held."""
    metadata = answer.get("metadata", {})
    if "deletionTimestamp" not in metadata:
        return False
    return metadata.get("deletionGracePeriodSeconds") != 0 or bool(metadata.get("finalizers"))


def _raise_first(results: Iterable[object]) -> None:
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _refusal(job: Job, result: object) -> Cause | None:
    """Return why a pod was refused, None if it was not."""
    if isinstance(result, NameConflictError) and job.status.start_time is not None:
        # A job that runs is not refused as a whole because it cannot grow.
        return Cause(Reason.NAME_CONFLICT, str(result))
    if isinstance(result, errors.InvalidObjectError):
        return Cause(Reason.INVALID_POD, printable(result.message))
    return _forbidden(result) if isinstance(result, errors.ForbiddenError) else None


def _said(error: errors.ApiError) -> str:
    return printable(error.message)


def _forbidden(error: errors.ForbiddenError) -> Cause:
    message = printable(error.message)
    if "exceeded quota" in message:
        return Cause(Reason.QUOTA_EXCEEDED, message)
    if "violates PodSecurity" in message:
        return Cause(Reason.POD_SECURITY, message)
    return Cause(Reason.REFUSED, message)
