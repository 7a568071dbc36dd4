"""An API server, a kubelet and an operator process, in memory, for whole passes.

`FakeCluster` keeps what the real one keeps: names, uids, resource versions, generations, owners.
tests/protocol asks it and a real kube-apiserver the same questions; what is not asked there must
not be relied on here. It is stricter in one thing: a status field that the CRD lacks is refused,
where the real one drops it.

`Operator` is what a process is made of; it forgets all when it dies. It runs the passes that the
real queue would run and no others, so that a wake-up that is lost shows as a job that hangs.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from tftraining_operator.api import keys
from tftraining_operator.api.status import Status
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.recorder import Recorder
from tftraining_operator.core.budgeting import Budgeting
from tftraining_operator.core.conditions import find
from tftraining_operator.core.naming import is_server
from tftraining_operator.core.networking import Networking
from tftraining_operator.core.pod_metadata import PodMetadata
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.times import rfc3339
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.reconciler import Reconciler
from tftraining_operator.reconcile.store import JobKey, Kind, Store

from tests.unit.builders import IMAGE, NOW, PodBuilder, Raw
from tests.unit.strictness import unknown_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from tftraining_operator.api.keys import ConditionType, Role
    from tftraining_operator.api.status import Condition
    from tftraining_operator.core.progress import Report
    from tftraining_operator.reconcile.protocols import StatusObserver, Target

METRICS = Metrics()
"""Sees every status that any test has written, however it was tampered with."""

Key = tuple[Kind, str, str]

Lag = Mapping[Kind, int]
"""How many watch events of each kind are read, as each kind has a watch of its own."""

WRITES = (
    "create",
    "replace",
    "delete",
    "delete_servers",
    "patch_status",
    "patch_workload",
    "create_event",
)
EVENT_NOTE_BYTES = 1024
_GRACE_SECONDS = 30


class KilledError(Exception):
    """The operator's process has ended in the middle of a call."""


class Fault(StrEnum):
    """What can happen to a write."""

    FAILED = "fails"
    """The server is busy and has done nothing."""
    CONFLICT = "conflicts"
    """Somebody else was faster; only a status can meet that."""
    LOST = "is carried out, but its answer is lost"
    KILLED = "is carried out, and the process ends"
    """For a process that forgets all, that is to end before the next write as well."""


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
    cluster_objects: dict[str, Raw] = field(
        default_factory=lambda: {"/apis/scheduling.k8s.io/v1/priorityclasses": {"items": []}}
    )
    """What is in no namespace, by its path."""
    events: list[Raw] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    """How often each verb was called."""
    failing: dict[str, list[errors.ApiError]] = field(default_factory=dict)
    """What the next calls of a verb fail with."""
    refuse: Callable[[Kind, Raw], errors.ApiError | None] = lambda _kind, _body: None
    """Quota, admission and validation: why an object may not be created."""
    faults: dict[int, Fault] = field(default_factory=dict)
    """What happens to writes, counted from 1."""
    pause: Callable[[], Awaitable[None]] | None = None
    """Awaited on the way to the server and back: others may work in between."""
    silent: set[str] = field(default_factory=set)
    """uids of pods whose node is lost: nothing is heard of them any more, not even their end."""
    closing: set[str] = field(default_factory=set)
    """Namespaces that are being deleted."""
    dead: bool = False
    writes: int = 0
    """How many writes were asked for, those that failed included."""
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
        return await self._call("get", lambda: copied(self._find(kind, namespace, name)))

    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
        verb = "dry_run" if dry_run else "create"
        return await self._call(verb, lambda: self._create(kind, copied(body), dry_run=dry_run))

    async def replace(self, kind: Kind, body: Raw) -> Raw:
        def apply() -> Raw:
            metadata = body["metadata"]
            raw = self._find(kind, metadata["namespace"], metadata["name"])
            if any(raw["metadata"][key] != metadata[key] for key in ("uid", "resourceVersion")):
                raise errors.ConflictError("the object has been modified", status=409)
            if (error := self.refuse(kind, body)) is not None:
                raise error
            before = copied(raw)
            kept = {key: raw["metadata"][key] for key in ("creationTimestamp", "generation")}
            raw.update(copied(body))
            raw["metadata"] |= kept
            if raw != before:
                self._changed("MODIFIED", kind, raw)
            return copied(raw)

        return await self._call("replace", apply)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> Raw:
        return await self._call(
            "delete", lambda: self._delete(kind, namespace, name, uid, grace=grace)
        )

    async def delete_servers(self, namespace: str, job: str, uid: str) -> None:
        def apply() -> Raw:
            for name, raw in self.pods(namespace).items():
                if is_server(raw["metadata"].get("labels") or {}, job, uid):
                    self._delete(Kind.POD, namespace, name, raw["metadata"]["uid"])
            return {}

        await self._call("delete_servers", apply)

    async def patch_status(
        self, namespace: str, name: str, resource_version: str, patch: Raw
    ) -> Raw:
        def apply() -> Raw:
            raw = self._find(Kind.JOB, namespace, name)
            if raw["metadata"]["resourceVersion"] != resource_version:
                raise errors.ConflictError("the object has been modified", status=409)
            status = merged(raw.get("status") or {}, patch)
            try:
                parsed = Status.model_validate_json(json.dumps(status), extra="ignore")
            except ValidationError as error:
                raise errors.InvalidObjectError(str(error), status=422) from error
            if status != raw.get("status"):
                self.statuses.append(parsed)
                raw["status"] = status
                self._changed("MODIFIED", Kind.JOB, raw)
            return copied(raw)

        return await self._call("patch_status", apply)

    async def patch_workload(
        self,
        namespace: str,
        name: str,
        resource_version: str,
        patch: Raw,
        *,
        subresource: str = "",
    ) -> Raw:
        def apply() -> Raw:
            raw = self._find(Kind.WORKLOAD, namespace, name)
            if raw["metadata"]["resourceVersion"] != resource_version:
                raise errors.ConflictError("the object has been modified", status=409)
            parts = ("status",) if subresource else ("metadata", "spec")
            changed = {part: merged(raw.get(part), patch.get(part) or {}) for part in parts}
            if any(raw.get(part) != value for part, value in changed.items()):
                raw |= changed
                self._changed("MODIFIED", Kind.WORKLOAD, raw)
            return copied(raw)

        return await self._call("patch_workload", apply)

    async def read(self, path: str) -> Raw:
        def find() -> Raw:
            if path not in self.cluster_objects:
                raise errors.NotFoundError(f"{path} not found", status=404)
            return copied(self.cluster_objects[path])

        return await self._call("read", find)

    async def create_event(self, body: Raw) -> None:
        def apply() -> Raw:
            self._admit(body)
            if len(body["note"].encode()) > EVENT_NOTE_BYTES:
                raise errors.InvalidObjectError(
                    "note: can have at most 1024 characters", status=422
                )
            if any(body["metadata"] == event["metadata"] for event in self.events):
                raise errors.AlreadyExistsError("the event already exists", status=409)
            self.events.append(copied(body))
            return body

        await self._call("create_event", apply)

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

    def suspend(self, key: JobKey) -> None:
        """Let its user suspend a job."""
        self.edit(key, lambda spec: spec.setdefault("runPolicy", {}).update(suspend=True))

    def resume(self, key: JobKey) -> None:
        """Let its user resume a job."""
        self.edit(key, lambda spec: spec["runPolicy"].update(suspend=False))

    def tamper(self, key: JobKey, change: Callable[[Raw], object]) -> None:
        """Let somebody write into a job's status."""
        raw = self._find(Kind.JOB, *key)
        self.change(Kind.JOB, raw, lambda body: change(body["status"]))

    def change(self, kind: Kind, raw: Raw, change: Callable[[Raw], object]) -> None:
        """Let somebody change an object."""
        change(raw)
        self._changed("MODIFIED", kind, raw)

    def remove_job(self, key: JobKey) -> None:
        self._delete(Kind.JOB, *key, self._find(Kind.JOB, *key)["metadata"]["uid"])

    def job(self, key: JobKey) -> Raw:
        return self._find(Kind.JOB, *key)

    def status(self, key: JobKey) -> Status:
        return Status.model_validate_json(
            json.dumps(self.job(key).get("status") or {}), extra="ignore"
        )

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

    def label(self, name: str, labels: Mapping[str, str | None], kind: Kind = Kind.POD) -> None:
        """Let a user set an object's labels, or take them away."""
        raw = self._find(kind, "default", name)
        before = copied(raw)
        raw["metadata"]["labels"] = merged(raw["metadata"].get("labels"), labels)
        if _is_ours(kind, before) and not _is_ours(kind, raw):
            self._number(raw)
            # To a watch with a selector, what no longer matches is gone: as it was, numbered anew.
            before["metadata"]["resourceVersion"] = raw["metadata"]["resourceVersion"]
            self.watch.append(("DELETED", kind, before))
            return
        returned = _is_ours(kind, raw) and not _is_ours(kind, before)
        self._changed("ADDED" if returned else "MODIFIED", kind, raw)

    def collect_garbage(self) -> bool:
        """Let the garbage collector delete what has lost its owner. Tell whether anything went."""
        alive = {raw["metadata"]["uid"] for raw in self.objects.values()}
        orphans = [
            (key, raw)
            for key, raw in self.objects.items()
            if (owners := raw["metadata"].get("ownerReferences"))
            and not any(owner["uid"] in alive for owner in owners)
            and "deletionTimestamp" not in raw["metadata"]
        ]
        for key, raw in orphans:
            self._delete(*key, raw["metadata"]["uid"])
        return bool(orphans)

    def lose_node(self, name: str) -> None:
        """Let a pod's node fall silent, and the cluster ask the pod to go."""
        raw = self._find(Kind.POD, "default", name)
        self.silent.add(raw["metadata"]["uid"])
        self._delete(Kind.POD, "default", name, raw["metadata"]["uid"])

    def run_pods(self) -> bool:
        """Let the nodes work: pending pods become ready, deleted ones go. Tell whether any did."""
        acted = self.collect_garbage()
        for name, raw in self.pods().items():
            if raw["metadata"]["uid"] in self.silent:
                continue
            if "deletionTimestamp" in raw["metadata"]:
                self.collect(name)
            elif raw["status"]["phase"] == "Pending":
                self.act(name, PodBuilder.running)
            else:
                continue
            acted = True
        return acted

    def listing(self, kind: Kind) -> tuple[list[Raw], str]:
        """List what the operator lists: all jobs, and the pods and services with our label."""
        found = [
            copied(raw)
            for (k, _, _), raw in self.objects.items()
            if k is kind and _is_ours(kind, raw)
        ]
        return found, str(self._version)

    def unlabelled_pods(self) -> list[Raw]:
        """List pods that lost our label, but have the one of their role."""
        return [
            copied(raw)
            for (kind, _, _), raw in self.objects.items()
            if kind is Kind.POD
            and not _is_ours(kind, raw)
            and keys.LABEL_ROLE in (raw["metadata"].get("labels") or {})
        ]

    # How.

    async def _call(self, verb: str, effect: Callable[[], Raw]) -> Raw:
        await self._travel()
        if self.dead:
            raise KilledError
        self.calls[verb] += 1
        if self.failing.get(verb):
            raise self.failing[verb].pop(0)
        self.writes += verb in WRITES
        fault = self.faults.pop(self.writes, None) if verb in WRITES else None
        if fault is Fault.CONFLICT and verb == "patch_status":
            raise errors.ConflictError("the object has been modified", status=409)
        if fault is Fault.FAILED:
            raise errors.TransientError("the server is busy", status=500)
        answer = effect()
        if fault is Fault.KILLED:
            self.dead = True
            raise KilledError
        await self._travel()
        if fault is Fault.LOST:
            raise errors.TransientError("no answer came")
        return answer

    async def _travel(self) -> None:
        if self.pause is not None:
            await self.pause()

    def _find(self, kind: Kind, namespace: str, name: str) -> Raw:
        try:
            return self.objects[kind, namespace, name]
        except KeyError:
            raise errors.NotFoundError(f"{name} not found", status=404) from None

    def _create(self, kind: Kind, body: Raw, *, dry_run: bool) -> Raw:
        metadata = body["metadata"]
        if kind is not Kind.JOB and (paths := unknown_fields(kind.value, body)):
            words = ", ".join(f'unknown field "{path}"' for path in paths)
            raise errors.InvalidObjectError(f"strict decoding error: {words}", status=400)
        self._admit(body)
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

    def _delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> Raw:
        raw = self._find(kind, namespace, name)
        if raw["metadata"]["uid"] != uid:
            raise errors.ConflictError(f"the uid of {name} is another", status=409)
        if kind is not Kind.POD:
            self._drop(kind, raw)
            return copied(raw) if kind is Kind.SERVICE else {"kind": "Status", "metadata": {}}
        # A pod that a node still works on gets its grace.
        works = "nodeName" in raw["spec"] and raw["status"]["phase"] not in ("Succeeded", "Failed")
        if works and grace != 0:
            self._terminate(raw, _GRACE_SECONDS if grace is None else grace)
        else:
            self._drop(kind, raw)
        return copied(raw)

    def _terminate(self, raw: Raw, grace: int) -> None:
        metadata = raw["metadata"]
        if metadata.get("deletionGracePeriodSeconds", grace + 1) > grace:
            ends = self.clock() + timedelta(seconds=grace)
            metadata |= {
                "deletionTimestamp": rfc3339(ends),
                "deletionGracePeriodSeconds": grace,
            }
            self._changed("MODIFIED", Kind.POD, raw)

    def _drop(self, kind: Kind, raw: Raw) -> None:
        metadata = raw["metadata"]
        if kind is Kind.POD:
            self._terminate(raw, 0)
        if metadata.get("finalizers"):
            return
        del self.objects[kind, metadata["namespace"], metadata["name"]]
        self._changed("DELETED", kind, raw)

    def _admit(self, body: Raw) -> None:
        if (namespace := body["metadata"]["namespace"]) in self.closing:
            words = f"namespace {namespace} is being terminated"
            raise errors.ForbiddenError(words, status=403)

    def _number(self, raw: Raw) -> None:
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)

    def _changed(self, what: str, kind: Kind, raw: Raw) -> None:
        self._number(raw)
        if _is_ours(kind, raw):
            self.watch.append((what, kind, copied(raw)))


def _is_ours(kind: Kind, raw: Raw) -> bool:
    """Tell whether the operator lists and watches an object."""
    return kind is Kind.JOB or keys.LABEL_JOB in (raw["metadata"].get("labels") or {})


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
    """Implements ReportSource: what running pods would answer, set by the test."""

    told: dict[Role, Report] = field(default_factory=dict)
    watched: dict[JobKey, Mapping[Role, Target]] = field(default_factory=dict)

    def watch(self, key: JobKey, targets: Mapping[Role, Target]) -> None:
        self.watched[key] = targets

    def forget(self, key: JobKey) -> None:
        self.watched.pop(key, None)

    def reports(self, key: JobKey) -> Mapping[Role, Report]:
        return {
            role: self.told[role].model_copy(update={"pod_uid": target.pod_uid})
            for role, target in self.watched.get(key, {}).items()
            if role in self.told
        }

    def count(self) -> int:
        return len(self.watched)


class Operator:
    """One operator process over a cluster: its store, its reconciler, its queue by virtual time."""

    def __init__(
        self,
        cluster: FakeCluster,
        runner: asyncio.Runner,
        *,
        instance: str = "test",
        retry_seconds: float = 0.1,
        lags: Iterable[Lag] = (),
        offer: Offer | None = None,
        networking: Networking | None = None,
        budgeting: Budgeting | None = None,
        pod_metadata: PodMetadata | None = None,
        observe: StatusObserver = METRICS.saw_status,
        crowded: bool = False,
    ) -> None:
        self.cluster = cluster
        self.networking = networking or Networking()
        self.budgeting = budgeting or Budgeting()
        self.offer = offer or Offer()
        self.store = Store()
        self.progress = FakeProgress()
        self.runner = runner
        self._lags = iter(lags)
        self._retry_seconds = retry_seconds
        self._due: dict[JobKey, datetime] = {}
        self.passes = 0
        self.retrying: set[JobKey] = set()
        """Of which keys the last pass failed."""
        self.crowded = crowded
        """Whether other jobs wait for their passes."""
        self.reconciler = Reconciler(
            cluster,
            self.store,
            self.progress,
            Recorder(cluster, instance, cluster.clock),
            trainer_image=IMAGE,
            pod_metadata=pod_metadata or PodMetadata(),
            clock=cluster.clock,
            offer=lambda _namespace: self.offer,
            networking=lambda _namespace: self.networking,
            budgeting=lambda _namespace: self.budgeting,
            observe=observe,
            give_way=self._give_way,
        )
        cluster.dead = False
        self._read = dict.fromkeys(Kind, len(cluster.watch))
        for kind in Kind:
            for key in self.store.replace(kind, *cluster.listing(kind), None, self.store.mark()):
                self.look(key)
        for raw in cluster.unlabelled_pods():
            self.store.put(Kind.POD, raw)

    def look(self, key: JobKey) -> None:
        self._due[key] = self.cluster.clock()

    def _give_way(self, key: JobKey) -> bool:
        if self.crowded:
            self.look(key)
        return self.crowded

    def one_pass(self, key: JobKey) -> float | None:
        self.passes += 1
        return self.runner.run(self.reconciler(key))

    @property
    def behind(self) -> int:
        """How many watch events it has not read yet."""
        return sum(len(self._unread(kind)) for kind in Kind)

    @property
    def next_pass(self) -> datetime | None:
        return min(self._due.values(), default=None)

    def see(self, lag: Lag | None = None) -> None:
        """Read watch events: all in their order, or so many of the kinds whose watch is slow."""
        counts = dict.fromkeys(Kind) if lag is None else lag
        told = [each for kind in Kind for each in self._unread(kind)[: counts.get(kind)]]
        for index, what, kind, raw in sorted(told, key=itemgetter(0)):
            self._read[kind] = index + 1
            gone = what == "DELETED"
            key = self.store.remove(kind, raw) if gone else self.store.put(kind, copied(raw))
            if key is not None:
                self.look(key)
        self._read_unlisted()

    def _read_unlisted(self) -> None:
        for kind, key, raw in self.store.unlisted():
            name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
            found = self.cluster.objects.get((kind, key.namespace, name))
            if found is None or found["metadata"]["uid"] != uid:
                self.store.forget(kind, key, name, uid)
                self.look(key)
            if found is not None and (changed := self.store.put(kind, copied(found))) is not None:
                self.look(changed)

    def look_around(self) -> None:
        """Read what the watches tell by now, which the lags decide while there are any."""
        self.see(next(self._lags, None))

    def _unread(self, kind: Kind) -> list[tuple[int, str, Kind, Raw]]:
        start = self._read[kind]
        told = enumerate(self.cluster.watch[start:], start)
        return [(index, what, of, raw) for index, (what, of, raw) in told if of is kind]

    def settle(self, *, watching: bool = True) -> None:
        settle([self], watching=watching)

    def wait(self, seconds: float) -> None:
        wait([self], seconds)

    def due(self) -> list[JobKey]:
        return [key for key, moment in self._due.items() if moment <= self.cluster.clock()]

    async def work(self, key: JobKey) -> None:
        """Do what the queue does with a key."""
        del self._due[key]
        self.passes += 1
        self.retrying.discard(key)
        try:
            seconds = await self.reconciler(key)
        except errors.ApiError:
            seconds = self._retry_seconds
            self.retrying.add(key)
        # A watch event that came meanwhile has put the key into the queue again.
        if seconds is not None and key not in self._due:
            self._due[key] = self.cluster.clock() + timedelta(seconds=max(0.0, seconds))


def settle(operators: Sequence[Operator], *, watching: bool = True) -> None:
    """Let operators run every pass that is due now, all at once, until none is."""
    for _ in range(200):
        for operator in operators if watching else ():
            operator.look_around()
        due = [(operator, key) for operator in operators for key in operator.due()]
        if due:
            _together(due)
        elif not watching or not any(operator.behind for operator in operators):
            return
    raise AssertionError("the operator does not come to rest")


def at_rest(operator: Operator) -> None:
    """Let operator and nodes work until neither has anything left to do now."""
    operator.settle()
    while operator.cluster.run_pods():
        operator.settle()


def wait(operators: Sequence[Operator], seconds: float) -> None:
    """Let time pass, stopping at every moment at which a pass is due."""
    clock = operators[0].cluster.clock
    end = clock() + timedelta(seconds=seconds)
    settle(operators)
    while moments := [m for o in operators if (m := o.next_pass) is not None and m < end]:
        clock.now = max(min(moments), clock())
        settle(operators)
    clock.now = end
    settle(operators)


def condition(cluster: FakeCluster, key: JobKey, kind: ConditionType) -> Condition:
    """Find a condition that a job must have by now."""
    found = find(cluster.status(key).conditions, kind)
    assert found is not None
    return found


def _together(due: Sequence[tuple[Operator, JobKey]]) -> None:
    async def all_of_them() -> list[BaseException | None]:
        passes = (operator.work(key) for operator, key in due)
        return await asyncio.gather(*passes, return_exceptions=True)

    for result in due[0][0].runner.run(all_of_them()):
        if result is not None:
            raise result
