"""The part of an API server that the pass needs, over the kubelet of this computer.

Implements `reconcile.protocols.Api` for one job, and keeps the reconciler's store up to date as the
watches of a cluster do.
"""

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from tftraining_operator.core.naming import is_server
from tftraining_operator.core.times import rfc3339
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind, Store

from tftraining.cli.local.kubelet import Task
from tftraining.errors import InputError

_Object = dict[str, Any]


class Pods(Protocol):
    """Runs pods and reports their status; see kubelet.Kubelet."""

    def pods(self) -> list[_Object]: ...  # noqa: D102
    def pod(self, name: str) -> _Object | None: ...  # noqa: D102
    def create(self, raw: _Object, task: Task) -> None: ...  # noqa: D102
    def delete(self, name: str, grace: int | None = None) -> None: ...  # noqa: D102


class TaskFactory(Protocol):
    """Turns pods into processes; see tasks.Tasks."""

    def check(self, pod: _Object) -> None: ...  # noqa: D102
    def create(self, pod: _Object) -> Task: ...  # noqa: D102


class LocalApi:
    """One job, its service and its pods."""

    def __init__(
        self,
        job: _Object,
        store: Store,
        kubelet: Pods,
        tasks: TaskFactory,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._kubelet = kubelet
        self._tasks = tasks
        self._clock = clock
        self._version = 0
        self._created = 0
        # Everything but pods, whose state the kubelet has.
        self._objects: dict[tuple[Kind, str], _Object] = {}
        self._pods: dict[str, _Object] = {}
        """The pods as they were last read from the kubelet, each with its resourceVersion."""
        job = copy.deepcopy(job)
        job["metadata"]["creationTimestamp"] = rfc3339(clock())
        self._store.put(Kind.JOB, self._keep(Kind.JOB, job))
        self.key = JobKey(job["metadata"]["namespace"], job["metadata"]["name"])

    def sync(self) -> bool:
        """Put the kubelet's news into the store; return whether there were any."""
        changed = False
        present = {pod["metadata"]["name"]: pod for pod in self._kubelet.pods()}
        for name, known in list(self._pods.items()):
            if name not in present:
                del self._pods[name]
                self._store.forget(Kind.POD, self.key, name, known["metadata"]["uid"])
                changed = True
        for name in present:
            changed |= self._store.put(Kind.POD, self._pod(name)) is not None
        return changed

    async def get(self, kind: Kind, namespace: str, name: str) -> _Object:
        """Return an object. Raises NotFoundError."""
        if kind is Kind.POD:
            return self._pod(name)
        try:
            return copy.deepcopy(self._objects[kind, name])
        except KeyError:
            raise _not_found(kind, namespace, name) from None

    async def create(self, kind: Kind, body: _Object, *, dry_run: bool = False) -> _Object:
        """Create an object; a pod's process is started.

        Raises AlreadyExistsError, InvalidObjectError for a pod that cannot run here,
        TFTrainingError if this computer cannot start the process.
        """
        body, name = copy.deepcopy(body), body["metadata"]["name"]
        if (kind, name) in self._objects or self._kubelet.pod(name) is not None:
            raise errors.AlreadyExistsError(f"{kind.value.lower()} {name} already exists")
        self._created += 1
        body["metadata"] |= {
            "uid": f"{self._objects[Kind.JOB, self.key.name]['metadata']['uid']}-{self._created}",
            "creationTimestamp": rfc3339(self._clock()),
        }
        if kind is not Kind.POD:
            return body if dry_run else self._keep(kind, body)
        try:
            self._tasks.check(body)
            if dry_run:
                return body
            self._kubelet.create(body, self._tasks.create(body))
        except InputError as error:
            raise errors.InvalidObjectError(str(error)) from error
        return self._pod(name)

    async def replace(self, kind: Kind, body: _Object) -> _Object:
        """Write over an object other than a pod. Raises NotFoundError, ConflictError."""
        metadata = body["metadata"]
        found = await self.get(kind, metadata["namespace"], metadata["name"])
        if found["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise errors.ConflictError(f"{kind.value.lower()} {metadata['name']} has been modified")
        return self._keep(kind, copy.deepcopy(body))

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> _Object:
        """Delete an object; a pod's process gets its grace. Raises NotFoundError, ConflictError."""
        found = await self.get(kind, namespace, name)
        if found["metadata"]["uid"] != uid:
            raise errors.ConflictError(f"{kind.value.lower()} {name} has another uid")
        if kind is not Kind.POD:
            del self._objects[kind, name]
            return self._next(found)
        self._kubelet.delete(name, grace)
        if self._kubelet.pod(name) is not None:
            return self._pod(name)
        del self._pods[name]
        gone = self._next(found)
        gone["metadata"] |= {
            "deletionTimestamp": rfc3339(self._clock()),
            "deletionGracePeriodSeconds": 0,
        }
        return gone

    async def delete_servers(self, namespace: str, job: str, uid: str) -> None:
        """Delete the workers and parameter servers: their processes get their grace."""
        for raw in self._kubelet.pods():
            metadata = raw["metadata"]
            if is_server(metadata["labels"], job, uid):
                await self.delete(Kind.POD, namespace, metadata["name"], metadata["uid"])

    async def read(self, path: str) -> _Object:
        """Raise NotFoundError: here are no queues, to which alone such paths lead."""
        raise errors.NotFoundError(f"{path} does not exist on this computer", status=404)

    async def patch_workload(
        self,
        namespace: str,
        name: str,
        resource_version: str,  # noqa: ARG002 - see above
        patch: _Object,  # noqa: ARG002
        *,
        subresource: str = "",  # noqa: ARG002
    ) -> _Object:
        """Raise NotFoundError, as `read` does."""
        raise _not_found(Kind.WORKLOAD, namespace, name)

    async def patch_status(
        self, namespace: str, name: str, resource_version: str, patch: _Object
    ) -> _Object:
        """Apply a JSON merge patch to the job's status. Raises NotFoundError, ConflictError."""
        job = await self.get(Kind.JOB, namespace, name)
        if job["metadata"]["resourceVersion"] != resource_version:
            raise errors.ConflictError(f"job {name} has been modified")
        status = _merged(job.get("status"), patch)
        if status != job.get("status"):
            job = self._keep(Kind.JOB, {**job, "status": status})
        return job

    def _pod(self, name: str) -> _Object:
        """Return a pod as the kubelet reports it. Raises NotFoundError."""
        raw = self._kubelet.pod(name)
        if raw is None:
            raise _not_found(Kind.POD, self.key.namespace, name)
        known = self._pods.get(name)
        if known is None or _without_version(known) != raw:
            known = self._pods[name] = self._next(raw)
        return copy.deepcopy(known)

    def _keep(self, kind: Kind, raw: _Object) -> _Object:
        kept = self._objects[kind, raw["metadata"]["name"]] = self._next(raw)
        return copy.deepcopy(kept)

    def _next(self, raw: _Object) -> _Object:
        """Return an object with the next resourceVersion."""
        self._version += 1
        return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self._version)}}


def _not_found(kind: Kind, namespace: str, name: str) -> errors.NotFoundError:
    return errors.NotFoundError(f"{kind.value.lower()} {namespace}/{name} not found")


def _without_version(raw: _Object) -> _Object:
    metadata = {k: v for k, v in raw["metadata"].items() if k != "resourceVersion"}
    return {**raw, "metadata": metadata}


def _merged(target: object, patch: object) -> object:
    """Return `target` with a JSON merge patch (RFC 7386) applied."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
