"""What exists, as far as we know: fed by watches and listings, overlaid with our own writes.

A write's answer is newer than a late watch event; the higher resourceVersion wins. So a stale
watch can never make us create a pod twice. Only a listing that was started later overrules what is
known: it is what the API server has, whatever its versions are. Objects are read-only for all
readers. Those of which there are many are kept packed: as dicts they take six times the memory.
"""

import logging
import marshal
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from tftraining_operator.api import keys
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core import naming, slim
from tftraining_operator.core.job import Job, is_ours
from tftraining_operator.core.pod_state import is_ready
from tftraining_operator.core.schedulers import SCHEDULERS, kueue

logger = logging.getLogger(__name__)

_Object = dict[str, Any]

_TOMBSTONES = 20_000


class Kind(StrEnum):
    """Kinds that are kept."""

    JOB = keys.KIND
    POD = "Pod"
    SERVICE = "Service"
    NETWORK_POLICY = "NetworkPolicy"
    DISRUPTION_BUDGET = "PodDisruptionBudget"
    IN_TREE_GROUP = SCHEDULERS[Gang.IN_TREE].api.resource
    COSCHEDULING_GROUP = SCHEDULERS[Gang.POD_GROUP].api.resource
    VOLCANO_GROUP = SCHEDULERS[Gang.VOLCANO].api.resource
    WORKLOAD = kueue.API.resource

    @property
    def word(self) -> str:
        """The kind's name, as objects carry it."""
        if self is Kind.WORKLOAD:
            return "Workload"
        return "PodGroup" if self in GROUPS.values() else self.value


_SLIM = {
    Kind.JOB: slim.job,
    Kind.POD: slim.pod,
    Kind.SERVICE: slim.service,
    Kind.DISRUPTION_BUDGET: slim.disruption_budget,
}

GROUPS = {gang: Kind(scheduler.api.resource) for gang, scheduler in SCHEDULERS.items()}
"""The kind of each scheduler's groups."""


class JobKey(NamedTuple):
    """Identity of a job in the queue; a recreated job has the same."""

    namespace: str
    name: str

    @classmethod
    def of(cls, job: Job) -> "JobKey":
        """Return the key of a job."""
        return cls(job.namespace, job.name)

    def __str__(self) -> str:
        """Return both, as kubectl and the log write them."""
        return f"{self.namespace}/{self.name}"


_PACKED = frozenset({Kind.JOB, Kind.POD, Kind.SERVICE, Kind.NETWORK_POLICY})
"""Kinds of which every job has some. To unpack one takes 5 µs."""


class _Known(msgspec.Struct, frozen=True, gc=False):
    """A version of an object, and when it was learned.

    No instance is looked through for garbage, of which there is none: nothing kept refers to it.
    """

    kept: _Object | bytes
    uid: str
    name: str
    version: int
    is_listed: bool
    is_ready: bool
    """Of a pod."""
    learned: int

    @classmethod
    def of(cls, kind: Kind, key: JobKey, raw: _Object, learned: int) -> "_Known":
        """Keep an object that is cut down to what is read of it."""
        metadata = raw["metadata"]
        return cls(
            kept=marshal.dumps(raw) if kind in _PACKED else raw,
            uid=str(metadata["uid"]),
            name=metadata["name"],
            version=version_of(raw),
            is_listed=_is_listed(kind, key, raw),
            is_ready=kind is Kind.POD and is_ready(raw),
            learned=learned,
        )

    @property
    def raw(self) -> _Object:
        if isinstance(self.kept, bytes):
            found: _Object = marshal.loads(self.kept)  # noqa: S302 - of this process's own bytes
            return found
        return self.kept


class _Tombstone(NamedTuple):
    """That an object was gone at a version; infinite where the server did not find its uid."""

    version: float
    learned: int


@dataclass(slots=True)
class Listing:
    """A consistent listing under way. What is learned between its pages is compared by version."""

    kind: Kind
    namespace: str | None
    mark: int
    newest: int = 0
    """The highest resource version of this kind that was known when it was started."""
    uids: set[str] = field(default_factory=set)
    went_back: bool = False


class Store:
    """The newest known version of every object, by kind and job."""

    def __init__(self, keeps: Callable[[JobKey], bool] = lambda _key: True) -> None:
        """Take in the objects of those jobs that `keeps` tells of."""
        self._keeps = keeps
        self._objects: dict[Kind, dict[JobKey, dict[str, _Known]]] = {kind: {} for kind in Kind}
        self._keys: dict[str, JobKey] = {}
        """The job of every known object, by the object's uid."""
        self._unlisted: dict[str, tuple[Kind, str]] = {}
        """Kind and name of those that no listing tells of, by uid; hardly ever are there any."""
        self._astray: dict[JobKey, _Object] = {}
        """Jobs that are told here though they are not kept, for a bucket that is not theirs."""
        self._gone: OrderedDict[str, _Tombstone] = OrderedDict()
        """Deleted objects by their uid, so that an answer that comes late revives none."""
        self._learned = 0
        self._newest = dict.fromkeys(Kind, 0)
        """The highest resource version that was taken in."""
        self.went_back = False
        """Whether a listing was older than what was known, as after a restore of etcd.

        What is known here is of two times then, and no decision may be based on it.
        """

    def mark(self) -> int:
        """Return what `replace` needs to tell what was learned before a listing was started."""
        return self._learned

    def put(self, kind: Kind, raw: _Object, *, is_cut: bool = False) -> JobKey | None:
        """Take in a version of an object; return the job to look at, None if nothing changed.

        One that is cut down to what is read of it already is kept as it is.
        """
        metadata = raw["metadata"]
        key = _key(kind, metadata)
        # A change that takes our label is told as a deletion; a read answers that same version.
        tombstone = self._gone.get(metadata["uid"])
        if key is None:
            return None
        if not self._keeps(key):
            if kind is Kind.JOB and _is_astray(raw):
                self._astray[key] = raw
            return None
        if tombstone is not None and version_of(raw) < tombstone.version:
            return None
        for known in (self._find(kind, raw), self._named(kind, key, metadata["name"])):
            if known is not None and known.version >= version_of(raw):
                return None
        self._keep(kind, key, raw if is_cut else _SLIM.get(kind, slim.other)(raw))
        return key

    def remove(self, kind: Kind, raw: _Object) -> JobKey | None:
        """Take in a watch's DELETED: the last version, numbered anew. Return the job to look at.

        A pod that is deleted has a deletionTimestamp by then. One that has none has lost our label
        and may live on; if a job controls it, it stays known until it is read or listed again.
        """
        metadata = raw["metadata"]
        if kind is Kind.POD and "deletionTimestamp" not in metadata and _controller(metadata):
            labels = dict(metadata.get("labels") or {})
            labels.pop(keys.LABEL_JOB, None)
            return self.put(kind, {**raw, "metadata": {**metadata, "labels": labels}})
        known = self._find(kind, raw)
        key = _key(kind, metadata) if known is None else self._keys[known.uid]
        if key is None or not self._keeps(key):
            return None
        if known is None or known.version <= version_of(raw):
            self._bury(kind, key, metadata["name"], metadata["uid"], version_of(raw))
        return key

    def forget(self, kind: Kind, key: JobKey, name: str, uid: str) -> None:
        """Take out an object that the server does not find any more."""
        self._bury(kind, key, name, uid, math.inf)

    def drop(self, dropped: Callable[[JobKey], bool]) -> set[JobKey]:
        """Forget all objects of some jobs; return these."""
        found = {key for named in self._objects.values() for key in named if dropped(key)}
        for kind, named in self._objects.items():
            for key in found & named.keys():
                for known in list(named[key].values()):
                    self._drop(kind, known)
        return found

    def replace(
        self,
        kind: Kind,
        items: Iterable[_Object],
        resource_version: str,
        namespace: str | None,
        mark: int,
    ) -> set[JobKey]:
        """Take in a whole consistent listing; return the jobs to look at.

        It overrules all that was known at `mark`, before it was started, even with lower versions:
        these are those of a restored etcd. What was learned since is compared by its version.
        """
        listing = Listing(kind, namespace, mark)
        touched = self.take_page(listing, items, resource_version)
        return touched | self.end_listing(listing, resource_version)

    def clear(self, kind: Kind, namespace: str | None) -> set[JobKey]:
        """Take out all objects of a kind whose API is gone; return the jobs to look at."""
        return {key for known in self._all(kind, namespace) for key in self._drop(kind, known)}

    def begin_listing(self, kind: Kind, namespace: str | None) -> Listing:
        """Note that a listing is started, whose pages are taken in one by one as `replace` does."""
        return Listing(kind, namespace, self._learned, self._newest[kind])

    def take_page(
        self,
        listing: Listing,
        items: Iterable[_Object],
        resource_version: str,
        *,
        is_cut: bool = False,
    ) -> set[JobKey]:
        """Take in a page of a listing as `put` does; return the jobs to look at."""
        touched: set[JobKey] = set()
        if int(resource_version) < listing.newest:
            # Before any of it is looked at.
            self._go_back(listing)
        for raw in items:
            uid = raw["metadata"]["uid"]
            listing.uids.add(uid)
            tombstone = self._gone.get(uid)
            if tombstone is not None and tombstone.learned <= listing.mark:
                del self._gone[uid]
            known = self._find(listing.kind, raw)
            if (
                known is not None
                and known.learned <= listing.mark
                and known.version > version_of(raw)
            ):
                self._go_back(listing)
                touched |= self._drop(listing.kind, known)
            if (key := self.put(listing.kind, raw, is_cut=is_cut)) is not None:
                touched.add(key)
        return touched

    def end_listing(self, listing: Listing, resource_version: str) -> set[JobKey]:
        """Drop what a complete listing lacks; return the jobs to look at."""
        touched: set[JobKey] = set()
        for known in self._all(listing.kind, listing.namespace):
            outdated = known.learned <= listing.mark or known.version <= int(resource_version)
            if outdated and known.uid not in listing.uids and known.is_listed:
                if known.version > int(resource_version):
                    self._go_back(listing)
                touched |= self._drop(listing.kind, known)
        if listing.went_back:
            logger.warning(
                "resource versions of %ss went back, as after a restore of etcd; "
                "the listing replaces what was known",
                listing.kind.word.lower(),
            )
        return touched

    def _go_back(self, listing: Listing) -> None:
        listing.went_back = self.went_back = True
        self._newest[listing.kind] = 0

    def job(self, key: JobKey) -> _Object | None:
        """Return a job."""
        known = self._named(Kind.JOB, key, key.name)
        return None if known is None else known.raw

    def job_version(self, key: JobKey) -> int | None:
        """Return the version of a job; unpacks nothing."""
        known = self._named(Kind.JOB, key, key.name)
        return None if known is None else known.version

    def has_job(self, key: JobKey) -> bool:
        """Tell whether there is a job; unpacks nothing."""
        return key in self._objects[Kind.JOB]

    def job_keys(self, namespace: str | None = None) -> list[JobKey]:
        """Return the keys of all jobs, or of those in a namespace."""
        keys = self._objects[Kind.JOB]
        if namespace is None:
            return list(keys)
        return [key for key in keys if key.namespace == namespace]

    def job_count(self, namespace: str | None = None) -> int:
        """Return how many jobs there are, in all or in a namespace."""
        keys = self._objects[Kind.JOB]
        return len(keys) if namespace is None else sum(k.namespace == namespace for k in keys)

    def children(self, kind: Kind, key: JobKey) -> list[_Object]:
        """Return the objects of a kind that a job has."""
        return [known.raw for known in self._objects[kind].get(key, {}).values()]

    def are_ready(self, key: JobKey) -> bool:
        """Tell whether all pods of a job are ready; unpacks nothing."""
        return all(known.is_ready for known in self._objects[Kind.POD].get(key, {}).values())

    def unlisted(self) -> list[tuple[Kind, JobKey, _Object]]:
        """Return what no watch and no listing tells of, as it lacks our label."""
        return [
            (kind, key, self._objects[kind][key][name].raw)
            for uid, (kind, name) in self._unlisted.items()
            for key in (self._keys[uid],)
        ]

    @property
    def has_astray(self) -> bool:
        """Tell whether a job was told that has another bucket than belongs to its name."""
        return bool(self._astray)

    def take_astray(self) -> _Object | None:
        """Return such a job, which is forgotten; None if there is none."""
        return self._astray.popitem()[1] if self._astray else None

    def _keep(self, kind: Kind, key: JobKey, raw: _Object) -> None:
        uid, name = raw["metadata"]["uid"], raw["metadata"]["name"]
        if (before := self._find(kind, raw)) is not None:
            self._drop(kind, before)
        if (predecessor := self._named(kind, key, name)) is not None:
            self._drop(kind, predecessor)
        self._gone.pop(uid, None)
        self._learned += 1
        self._newest[kind] = max(self._newest[kind], version_of(raw))
        known = _Known.of(kind, key, raw, self._learned)
        self._objects[kind].setdefault(key, {})[name] = known
        self._keys[uid] = key
        if not known.is_listed:
            self._unlisted[uid] = kind, name

    def _bury(self, kind: Kind, key: JobKey, name: str, uid: str, version: float) -> None:
        self._learned += 1
        before = self._gone.pop(uid, None)
        newest = version if before is None else max(version, before.version)
        self._gone[uid] = _Tombstone(newest, self._learned)
        while len(self._gone) > _TOMBSTONES:
            self._gone.popitem(last=False)
        known = self._named(kind, key, name)
        if known is not None and known.uid == uid:
            self._drop(kind, known)

    def _drop(self, kind: Kind, known: _Known) -> set[JobKey]:
        key = self._keys.pop(known.uid)
        self._unlisted.pop(known.uid, None)
        named = self._objects[kind][key]
        del named[known.name]
        if not named:
            del self._objects[kind][key]
        return {key}

    def _find(self, kind: Kind, raw: _Object) -> _Known | None:
        """Return what is known of the object with this uid."""
        metadata = raw["metadata"]
        key = self._keys.get(metadata["uid"])
        return None if key is None else self._named(kind, key, metadata["name"])

    def _named(self, kind: Kind, key: JobKey, name: str) -> _Known | None:
        return self._objects[kind].get(key, {}).get(name)

    def _all(self, kind: Kind, namespace: str | None) -> Iterator[_Known]:
        for key, named in list(self._objects[kind].items()):
            if namespace is None or key.namespace == namespace:
                yield from list(named.values())


def _key(kind: Kind, metadata: _Object) -> JobKey | None:
    """Return the job of an object: its controller's, else its label's.

    A Workload that extends a job is controlled by nobody, and may have lost our label.
    """
    if kind is Kind.JOB:
        return JobKey(metadata["namespace"], metadata["name"])
    name = _controller(metadata) or (metadata.get("labels") or {}).get(keys.LABEL_JOB)
    if not name and kind is Kind.WORKLOAD:
        name = next(map(itemgetter("name"), _owners(metadata)), None)
    return JobKey(metadata["namespace"], name) if name else None


def _controller(metadata: _Object) -> str | None:
    """Return the name of the job that controls an object."""
    controllers = (owner["name"] for owner in _owners(metadata) if owner.get("controller"))
    return next(controllers, None)


def _owners(metadata: _Object) -> Iterator[_Object]:
    """Yield the references to jobs among the owners of an object."""
    for owner in metadata.get("ownerReferences") or []:
        group = str(owner.get("apiVersion")).partition("/")[0]
        if (group, owner.get("kind")) == (keys.GROUP, keys.KIND):
            yield owner


def _is_astray(job: _Object) -> bool:
    """Tell whether a job's bucket is not that of its name, so that its own shard does not see it.

    A new one has none, and is told to all.
    """
    found = (job.get("status") or {}).get("bucket")
    metadata = job["metadata"]
    return (
        found is not None
        and found != naming.bucket(metadata["namespace"], metadata["name"])
        and is_ours(job)
    )


def _is_listed(kind: Kind, key: JobKey, raw: _Object) -> bool:
    """Tell whether watches and listings include an object: those of children select by labels."""
    if kind is Kind.JOB:
        return True
    labels = raw["metadata"].get("labels") or {}
    expected = str(naming.bucket(*key))
    return keys.LABEL_JOB in labels and labels.get(keys.LABEL_BUCKET, expected) == expected


def version_of(raw: _Object) -> int:
    """Return the number of an object's state: a later one is higher."""
    # Comparable by the API's own guarantee (KEP-5504), and by etcd's counter ever since.
    return int(raw["metadata"]["resourceVersion"])
