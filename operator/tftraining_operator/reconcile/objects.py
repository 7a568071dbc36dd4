"""Calls about one object of a job, each with its answer laid over the store.

Every call may be repeated after a crash at any point: names are fixed, deletes name the uid.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from tftraining_operator.api import keys
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import is_server
from tftraining_operator.core.observed import owned_by
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.limits import Limits
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)

_AT_ONCE_FROM, _AT_ONCE_TO = 2, 32
"""So many pods are deleted by one call: the API server takes them one after the other."""
_AMONG = 300
"""Where a namespace has more jobs, it takes the API server longer to find one's pods among all
others' than to delete them one by one: with 80,000 pods, 0.16 s of CPU."""

_Object = dict[str, Any]
_T = TypeVar("_T")


class NameConflictError(Exception):
    """A name that the job needs belongs to somebody else; the text says what to do."""


class Objects:
    """Creates, replaces and deletes objects; only so many calls at once."""

    def __init__(self, api: Api, store: Store, shards: int) -> None:
        self._api = api
        self._store = store
        self._limits = Limits(shards)

    async def create(self, job: Job, kind: Kind, body: _Object) -> bool:
        """Create an object; return whether it was us who made it."""
        name = body["metadata"]["name"]
        try:
            self._store.put(kind, await self._api.create(kind, body))
        except errors.AlreadyExistsError:
            await self._adopt(job, kind, name)
            return False
        logger.debug("%s/%s: created %s %s", job.namespace, job.name, kind.value, name)
        return True

    async def replace(self, job: Job, kind: Kind, body: _Object) -> None:
        """Write over an object. Raises ConflictError, NotFoundError if the store is behind."""
        metadata = body["metadata"]
        try:
            self._store.put(kind, await self._api.replace(kind, body))
        except errors.NotFoundError:
            key = JobKey.of(job)
            self._store.forget(kind, key, metadata["name"], metadata["uid"])
            raise
        logger.debug("%s/%s: corrected %s %s", job.namespace, job.name, kind, metadata["name"])

    async def delete(
        self, kind: Kind, key: JobKey, name: str, uid: str, *, grace: int | None = None
    ) -> None:
        """Delete an object, unless it is gone or another one by now."""
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

    async def delete_servers(self, job: Job, removals: Sequence[Removal]) -> bool:
        """Delete an ended job's workers and parameter servers by one call, if these are all.

        Return False, and delete nothing, where they are not, without permission for that call, and
        among the pods of very many jobs.
        """
        key, wanted = JobKey.of(job), {each.pod.uid for each in removals}
        # A label alone is no proof of whose a pod is: `removals` are of pods that the job owns.
        selected = {
            raw["metadata"]["uid"]
            for raw in self._store.children(Kind.POD, key)
            if is_server(raw["metadata"].get("labels") or {}, job.name, job.uid)
        }
        if selected != wanted or not _AT_ONCE_FROM <= len(wanted) <= _AT_ONCE_TO:
            return False
        if any(each.grace is not None for each in removals):
            return False
        if self._store.job_count(job.namespace) > _AMONG:
            return False
        try:
            async with self._limits.one(key):
                await self._api.delete_servers(job.namespace, job.name, job.uid)
        except errors.ForbiddenError:
            # One by one it is known which of them may not be deleted, and why.
            return False
        logger.debug("%s: deleted workers and parameter servers", key)
        return True

    async def delete_own(self, kind: Kind, job: Job) -> None:
        """Delete a job's own objects of a kind."""
        key = JobKey.of(job)
        for raw in self._store.children(kind, key):
            if owned_by(raw, job.uid):
                await self.delete(kind, key, raw["metadata"]["name"], raw["metadata"]["uid"])

    async def together(
        self, key: JobKey, calls: Iterable[Coroutine[Any, Any, _T]]
    ) -> list[_T | BaseException]:
        """Make calls, as many at once as the limits allow; return results and exceptions."""

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
            f"{kind.word.lower()} {name} exists and does not belong to this job; delete it, or "
            "give the job another name"
        )


def _is_going(answer: _Object) -> bool:
    """Tell from a deletion's answer whether the object still exists: for its grace, or held."""
    metadata = answer.get("metadata", {})
    if "deletionTimestamp" not in metadata:
        return False
    return metadata.get("deletionGracePeriodSeconds") != 0 or bool(metadata.get("finalizers"))
