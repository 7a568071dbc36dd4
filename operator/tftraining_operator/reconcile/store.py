"""What exists, as far as we know: fed by watches, overlaid with our own writes.

A write's answer is newer than a late watch event; the higher resourceVersion wins. So a stale
watch can never make us create a pod twice. Objects are read-only for all readers.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from tftraining_operator.api import keys

_Object = dict[str, Any]

_TOMBSTONES = 20_000


class Kind(StrEnum):
    """Kinds that are kept."""

    JOB = keys.KIND
    POD = "Pod"
    SERVICE = "Service"


class JobKey(NamedTuple):
    """Identity of a job in the queue; a recreated job has the same."""

    namespace: str
    name: str


class Store:
    """The newest known version of every object, by kind and job."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[JobKey, dict[str, _Object]]] = {
            kind: defaultdict(dict) for kind in Kind
        }
        # uids of deleted objects, so that an answer that overtakes nothing revives nothing.
        self._gone: OrderedDict[str, None] = OrderedDict()

    def put(self, kind: Kind, raw: _Object) -> JobKey | None:
        """Take in a version of an object; return the job to look at, None if nothing changed."""
        metadata = raw["metadata"]
        key = _key(kind, metadata)
        if key is None or metadata["uid"] in self._gone:
            return None
        known = self._objects[kind][key].get(metadata["name"])
        if known is not None and _version(known) >= _version(raw):
            return None
        metadata.pop("managedFields", None)
        self._objects[kind][key][metadata["name"]] = raw
        return key

    def remove(self, kind: Kind, raw: _Object) -> JobKey | None:
        """Take out an object that is gone; return the job to look at."""
        metadata = raw["metadata"]
        key = _key(kind, metadata)
        if key is not None:
            self.forget(kind, key, metadata["name"], metadata["uid"])
        return key

    def forget(self, kind: Kind, key: JobKey, name: str, uid: str) -> None:
        """Take out an object of which only the identity is known."""
        self._gone[uid] = None
        while len(self._gone) > _TOMBSTONES:
            self._gone.popitem(last=False)
        named = self._objects[kind].get(key, {})
        if name in named and named[name]["metadata"]["uid"] == uid:
            del named[name]
        if not named:
            self._objects[kind].pop(key, None)

    def replace(
        self, kind: Kind, items: Iterable[_Object], resource_version: str, namespace: str | None
    ) -> set[JobKey]:
        """Take in a whole listing; what it lacks is gone. Return the jobs to look at."""
        touched: set[JobKey] = set()
        seen: set[str] = set()
        for raw in items:
            seen.add(raw["metadata"]["uid"])
            if (key := self.put(kind, raw)) is not None:
                touched.add(key)
        for key, named in list(self._objects[kind].items()):
            if namespace is not None and key.namespace != namespace:
                continue
            for raw in list(named.values()):
                older = _version(raw) <= int(resource_version)
                if older and raw["metadata"]["uid"] not in seen:
                    touched.add(self.remove(kind, raw) or key)
        return touched

    def job(self, key: JobKey) -> _Object | None:
        """Return a job."""
        return self._objects[Kind.JOB].get(key, {}).get(key.name)

    def children(self, kind: Kind, key: JobKey) -> list[_Object]:
        """Return the pods or services that carry a job's label."""
        return list(self._objects[kind].get(key, {}).values())


def _key(kind: Kind, metadata: _Object) -> JobKey | None:
    if kind is Kind.JOB:
        return JobKey(metadata["namespace"], metadata["name"])
    name = (metadata.get("labels") or {}).get(keys.LABEL_JOB)
    return JobKey(metadata["namespace"], name) if name else None


def _version(raw: _Object) -> int:
    # Comparable by the API's own guarantee (KEP-5504), and by etcd's counter ever since.
    return int(raw["metadata"]["resourceVersion"])
