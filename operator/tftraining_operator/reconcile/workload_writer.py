"""Writes a job's Workload, by which Kueue is told of it."""

import contextlib

from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.job import Job
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.text import printable
from tftraining_operator.core.workload_body import WorkloadChange
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.objects import NameConflictError, Objects
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.store import JobKey, Kind, Store


class WorkloadWriter:
    """Creates, changes and deletes the Workloads of jobs."""

    def __init__(self, api: Api, store: Store, objects: Objects) -> None:
        self._api = api
        self._store = store
        self._objects = objects

    async def change(self, job: Job, change: WorkloadChange) -> dict[str, Cause]:
        """Write what Kueue is told; return what is refused, by the Workload's name.

        That it cannot be written must not stop a job that trains. Raises ConflictError,
        NotLeadingError.
        """
        key, known = JobKey.of(job), change.known
        name = known.name if known is not None else (change.body or {})["metadata"]["name"]
        try:
            if known is None:
                await self._objects.create(job, Kind.WORKLOAD, change.body or {})
            elif change.delete:
                await self._objects.delete(Kind.WORKLOAD, key, name, known.uid)
            else:
                await self._patch(job, change, known)
        except errors.NotLeadingError:
            raise
        except errors.ConflictError:
            # Kueue has written as well: look at that first.
            await self._read(key, name)
            raise
        except errors.NotFoundError as error:
            if known is None:
                return {name: Cause(Reason.SCHEDULER_UNAVAILABLE, printable(error.message))}
            self._store.forget(Kind.WORKLOAD, key, name, known.uid)
        except NameConflictError as error:
            return {name: Cause(Reason.NAME_CONFLICT, str(error))}
        except errors.ApiError as error:
            # Of webhooks that do not answer as well: Kueue may be away for an upgrade.
            return {name: Cause(Reason.REFUSED, printable(error.message))}
        return {}

    async def _patch(self, job: Job, change: WorkloadChange, known: Workload) -> None:
        for patch, subresource in ((change.body, ""), (change.status, "status")):
            if patch is not None:
                body = patch if not subresource else {"status": patch}
                answer = await self._api.patch_workload(
                    job.namespace, known.name, known.version, body, subresource=subresource
                )
                self._store.put(Kind.WORKLOAD, answer)

    async def _read(self, key: JobKey, name: str) -> None:
        with contextlib.suppress(errors.ApiError):
            self._store.put(Kind.WORKLOAD, await self._api.get(Kind.WORKLOAD, key.namespace, name))
