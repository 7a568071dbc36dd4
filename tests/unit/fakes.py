"""An API server, a kubelet and an operator process, in memory, for whole passes.

`FakeCluster` keeps what the real one keeps: names, uids, resource versions, generations, owners.
`Operator` is what a process is made of; it forgets all when it dies. It runs the passes that the
real queue would run and no others, so that a wake-up that is lost shows as a job that hangs.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from tftraining_operator.api import keys
from tftraining_operator.api.status import Status
from tftraining_operator.controller import errors
from tftraining_operator.controller.reconciler import Reconciler
from tftraining_operator.controller.recorder import Recorder
from tftraining_operator.controller.store import JobKey, Kind, Store
from tftraining_operator.core.times import rfc3339

from tests.unit.builders import IMAGE, NOW, PodBuilder, Raw

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from tftraining_operator.api.keys import Role
    from tftraining_operator.core.progress import Report

Key = tuple[Kind, str, str]

WRITES = ("create", "delete", "patch_status", "create_event")


class KilledError(Exception):
    """The operator's process has ended in the middle of a call."""


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class FakeCluster:
    """Implements the protocols Api and EventApi over a dict."""

    clock: Clock = field(default_factory=Clock)
    objects: dict[Key, Raw] = field(default_factory=dict)
    events: list[Raw] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    """How often each verb was called."""
    failing: dict[str, list[errors.ApiError]] = field(default_factory=dict)
    """What the next calls of a verb fail with."""
    refuse: Callable[[Kind, Raw], errors.ApiError | None] = lambda _kind, _body: None
    """Quota, admission and validation: why an object may not be created."""
    die_at: int = 0
    """The write, counted from 1, after which the process ends; 0 for never.

    The server has carried it out; the answer never comes. For a process that forgets all, that is
    to end before the next write as well."""
    dead: bool = False
    writes: int = 0
    made: Counter[str] = field(default_factory=Counter)
    """How often a pod of each name was created."""
    statuses: list[Status] = field(default_factory=list)
    """Every status that was ever stored, of all jobs."""
    _version: int = 0
    _uids: int = 0
    watch: list[tuple[str, Kind, Raw]] = field(default_factory=list)
    """All watch events, in their order; each operator reads on from where it began."""

    # What the operator calls.

    async def get(self, kind: Kind, namespace: str, name: str) -> Raw:
        self._enter("get")
        return copied(self._find(kind, namespace, name))

    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
        verb = "dry_run" if dry_run else "create"
        return self._write(verb, lambda: self._create(kind, copied(body), dry_run=dry_run))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> Raw:
        return self._write("delete", lambda: self._delete(kind, namespace, name, uid))

    async def patch_status(
        self, namespace: str, name: str, resource_version: str, patch: Raw
    ) -> Raw:
        def apply() -> Raw:
            raw = self._find(Kind.JOB, namespace, name)
            if raw["metadata"]["resourceVersion"] != resource_version:
                raise errors.ConflictError("the object has been modified", status=409)
            status = merged(raw.get("status") or {}, patch)
            try:
                parsed = Status.model_validate_json(json.dumps(status))
            except ValidationError as error:
                raise errors.InvalidObjectError(str(error), status=422) from error
            if status != raw.get("status"):
                self.statuses.append(parsed)
                raw["status"] = status
                self._changed("MODIFIED", Kind.JOB, raw)
            return copied(raw)

        return self._write("patch_status", apply)

    async def create_event(self, body: Raw) -> None:
        def apply() -> Raw:
            self.events.append(body)
            return body

        self._write("create_event", apply)

    # What users, the kubelet and the garbage collector do.

    def submit(self, raw: Raw) -> JobKey:
        body = copied(raw)
        made = self._create(Kind.JOB, body, dry_run=False)
        return JobKey(made["metadata"]["namespace"], made["metadata"]["name"])

    def edit(self, key: JobKey, change: Callable[[Raw], object]) -> None:
        raw = self._find(Kind.JOB, *key)
        before = copied(raw["spec"])
        change(raw["spec"])
        if raw["spec"] != before:
            raw["metadata"]["generation"] += 1
            self._changed("MODIFIED", Kind.JOB, raw)

    def remove_job(self, key: JobKey) -> None:
        self._delete(Kind.JOB, *key, self._find(Kind.JOB, *key)["metadata"]["uid"])

    def job(self, key: JobKey) -> Raw:
        return self._find(Kind.JOB, *key)

    def status(self, key: JobKey) -> Status:
        return Status.model_validate_json(json.dumps(self.job(key).get("status") or {}))

    def pods(self, namespace: str = "default") -> dict[str, Raw]:
        return {
            n: raw for (k, ns, n), raw in self.objects.items() if (k, ns) == (Kind.POD, namespace)
        }

    def act(self, name: str, change: Callable[[PodBuilder], object]) -> None:
        """Let the kubelet report on a pod."""
        raw = self._find(Kind.POD, "default", name)
        change(PodBuilder(raw))
        self._changed("MODIFIED", Kind.POD, raw)

    def collect(self, name: str) -> None:
        """Let a pod go: its grace is over, or its node is lost."""
        self._drop(Kind.POD, self._find(Kind.POD, "default", name))

    def run_pods(self) -> bool:
        """Let the nodes work: pending pods become ready, deleted ones go. Tell whether any did."""
        acted = False
        for name, raw in self.pods().items():
            if "deletionTimestamp" in raw["metadata"]:
                self.collect(name)
            elif raw["status"]["phase"] == "Pending":
                self.act(name, PodBuilder.running)
            else:
                continue
            acted = True
        return acted

    def listing(self, kind: Kind) -> tuple[list[Raw], str]:
        found = [copied(raw) for (k, _, _), raw in self.objects.items() if k is kind]
        return found, str(self._version)

    # How.

    def _enter(self, verb: str) -> None:
        if self.dead:
            raise KilledError
        self.calls[verb] += 1
        if self.failing.get(verb):
            raise self.failing[verb].pop(0)

    def _write(self, verb: str, effect: Callable[[], Raw]) -> Raw:
        self._enter(verb)
        answer = effect()
        self.writes += verb in WRITES
        if verb in WRITES and self.writes == self.die_at:
            self.dead = True
            raise KilledError
        return answer

    def _find(self, kind: Kind, namespace: str, name: str) -> Raw:
        try:
            return self.objects[kind, namespace, name]
        except KeyError:
            raise errors.NotFoundError(f"{name} not found", status=404) from None

    def _create(self, kind: Kind, body: Raw, *, dry_run: bool) -> Raw:
        metadata = body["metadata"]
        if (error := self.refuse(kind, body)) is not None:
            raise error
        key = (kind, metadata["namespace"], metadata["name"])
        if key in self.objects:
            raise errors.AlreadyExistsError(f"{metadata['name']} already exists", status=409)
        if dry_run:
            return body
        self._uids += 1
        metadata |= {
            "uid": f"uid-{self._uids}",
            "generation": 1,
            "creationTimestamp": rfc3339(self.clock()),
        }
        if kind is Kind.POD:
            self.made[metadata["name"]] += 1
            body["status"] = {"phase": "Pending"}
        self.objects[key] = body
        self._changed("ADDED", kind, body)
        return copied(body)

    def _delete(self, kind: Kind, namespace: str, name: str, uid: str) -> Raw:
        raw = self._find(kind, namespace, name)
        if raw["metadata"]["uid"] != uid:
            raise errors.ConflictError(f"the uid of {name} is another", status=409)
        # A pod that a node knows of gets its grace; all else goes at once.
        if kind is Kind.POD and "nodeName" in raw["spec"]:
            if "deletionTimestamp" not in raw["metadata"]:
                raw["metadata"]["deletionTimestamp"] = rfc3339(self.clock())
                self._changed("MODIFIED", kind, raw)
            return copied(raw)
        self._drop(kind, raw)
        return copied(raw) if kind is Kind.POD else {"kind": "Status", "metadata": {}}

    def _drop(self, kind: Kind, raw: Raw) -> None:
        metadata = raw["metadata"]
        del self.objects[kind, metadata["namespace"], metadata["name"]]
        self._changed("DELETED", kind, raw)
        for (child, namespace, name), owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences", [])
            if any(o["uid"] == metadata["uid"] for o in owners):
                self._delete(child, namespace, name, owned["metadata"]["uid"])

    def _changed(self, what: str, kind: Kind, raw: Raw) -> None:
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        if kind is Kind.JOB or keys.LABEL_JOB in raw["metadata"].get("labels", {}):
            self.watch.append((what, kind, copied(raw)))


def copied(raw: Raw) -> Raw:
    """A copy as the wire makes it."""
    found: Raw = json.loads(json.dumps(raw))
    return found


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch applied, as RFC 7386 writes it down."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


@dataclass
class FakeProgress:
    """Implements the protocol Progress: what running pods would answer, told by the test."""

    told: dict[Role, Report] = field(default_factory=dict)
    watched: dict[JobKey, Mapping[Role, str]] = field(default_factory=dict)

    def watch(self, key: JobKey, targets: Mapping[Role, str]) -> None:
        self.watched[key] = targets

    def forget(self, key: JobKey) -> None:
        self.watched.pop(key, None)

    def reports(self, key: JobKey) -> Mapping[Role, Report]:
        return {role: self.told[role] for role in self.watched.get(key, {}) if role in self.told}


class Operator:
    """One operator process over a cluster: its store, its reconciler, its queue by virtual time."""

    def __init__(self, cluster: FakeCluster, runner: asyncio.Runner) -> None:
        self.cluster = cluster
        self.store = Store()
        self.progress = FakeProgress()
        self._runner = runner
        self._due: dict[JobKey, datetime] = {}
        self.passes = 0
        self.reconciler = Reconciler(
            cluster,
            self.store,
            self.progress,
            Recorder(cluster, "test", cluster.clock),
            trainer_image=IMAGE,
            clock=cluster.clock,
        )
        cluster.dead = False
        self._read = len(cluster.watch)
        for kind in Kind:
            for key in self.store.replace(kind, *cluster.listing(kind), None):
                self.look(key)

    def look(self, key: JobKey) -> None:
        self._due[key] = self.cluster.clock()

    def one_pass(self, key: JobKey) -> float | None:
        self.passes += 1
        return self._runner.run(self.reconciler(key))

    @property
    def behind(self) -> int:
        """How many watch events it has not read yet."""
        return len(self.cluster.watch) - self._read

    def see(self, count: int | None = None) -> None:
        """Read watch events: all, or the first few as a slow watch does."""
        taken = self.cluster.watch[self._read :][:count]
        self._read += len(taken)
        for what, kind, raw in taken:
            gone = what == "DELETED"
            key = self.store.remove(kind, raw) if gone else self.store.put(kind, copied(raw))
            if key is not None:
                self.look(key)

    def settle(self, *, watching: bool = True) -> None:
        """Run every pass that is due now, until none is."""
        for _ in range(60):
            if watching:
                self.see()
            due = [key for key, moment in self._due.items() if moment <= self.cluster.clock()]
            if not due:
                return
            for key in due:
                self._work(key)
        raise AssertionError("the operator does not come to rest")

    def wait(self, seconds: float) -> None:
        """Let time pass, stopping at every moment at which a pass is due."""
        end = self.cluster.clock() + timedelta(seconds=seconds)
        self.settle()
        while (moment := min(self._due.values(), default=end)) < end:
            self.cluster.clock.now = max(moment, self.cluster.clock())
            self.settle()
        self.cluster.clock.now = end
        self.settle()

    def _work(self, key: JobKey) -> None:
        del self._due[key]
        try:
            seconds = self.one_pass(key)
        except errors.ApiError:
            seconds = 0.1
        if seconds is not None:
            self._due[key] = self.cluster.clock() + timedelta(seconds=max(0.0, seconds))
