"""Cuts objects down to the fields that the operator reads; `reconcile/store.py` keeps only these.

A pod as the API server tells it takes two and a half times the memory: much of it is its template,
which the operator knows from the job. Whoever reads another field of a pod or a service adds it
here; tests/unit/test_slim.py compares what is observed of whole and of slim pods. Decoded as these
types, a pod takes a quarter of the time, as the rest of it is passed over.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tftraining_operator.api import keys
from tftraining_operator.core.bounds import MOST_BYTES
from tftraining_operator.core.environment import ATTEMPT, CLUSTER_WORKERS

_Object = dict[str, Any]

_VARIABLES = frozenset({ATTEMPT, CLUSTER_WORKERS})
_Absent = UnsetType | None
"""null is no value either: one pod that has it must not keep all others from being read."""


class _Part(msgspec.Struct, kw_only=True, gc=False, rename="camel"):
    """Fields of an object; those that it lacks are left out, and what is Any stays as it is."""


class _Owner(_Part):
    api_version: Any = UNSET
    kind: Any = UNSET
    name: Any = UNSET
    uid: Any = UNSET
    controller: Any = UNSET


class _Annotations(_Part):
    gang: Any = msgspec.field(default=UNSET, name=keys.ANNOTATION_GANG)
    spec: Any = msgspec.field(default=UNSET, name=keys.ANNOTATION_SPEC)
    workers: Any = msgspec.field(default=UNSET, name=keys.ANNOTATION_WORKERS)
    workload: Any = msgspec.field(default=UNSET, name=keys.ANNOTATION_WORKLOAD)


class _Metadata(_Part):
    name: Any = UNSET
    namespace: Any = UNSET
    uid: Any = UNSET
    resource_version: Any = UNSET
    creation_timestamp: Any = UNSET
    deletion_timestamp: Any = UNSET
    labels: Any = UNSET
    annotations: _Annotations | _Absent = UNSET
    owner_references: list[_Owner] | _Absent = UNSET


class _Limits(_Part):
    memory: Any = UNSET


class _Resources(_Part):
    limits: _Limits | _Absent = UNSET


class _Variable(_Part):
    name: Any = UNSET
    value: Any = UNSET


class _Container(_Part):
    name: Any = UNSET
    image: Any = UNSET
    restart_policy: Any = UNSET
    liveness_probe: Any = UNSET
    env: list[_Variable] | _Absent = UNSET
    resources: _Resources | _Absent = UNSET

    def __post_init__(self) -> None:
        if self.env:
            self.env = [each for each in self.env if each.name in _VARIABLES] or UNSET


class _Volume(_Part):
    config_map: Any = UNSET
    secret: Any = UNSET
    persistent_volume_claim: Any = UNSET
    projected: Any = UNSET


class _PodSpec(_Part):
    node_name: Any = UNSET
    restart_policy: Any = UNSET
    scheduler_name: Any = UNSET
    scheduling_gates: Any = UNSET
    containers: list[_Container] | _Absent = UNSET
    init_containers: list[_Container] | _Absent = UNSET
    volumes: list[_Volume] | _Absent = UNSET


class _Condition(_Part):
    type: Any = UNSET
    status: Any = UNSET
    reason: Any = UNSET
    message: Any = UNSET
    last_transition_time: Any = UNSET


class _ContainerStatus(_Part):
    name: Any = UNSET
    image: Any = UNSET
    ready: Any = UNSET
    started: Any = UNSET
    restart_count: Any = UNSET
    state: Any = UNSET
    last_state: Any = UNSET


class _PodStatus(_Part):
    phase: Any = UNSET
    reason: Any = UNSET
    message: Any = UNSET
    pod_ip: Any = msgspec.field(default=UNSET, name="podIP")
    pod_ips: Any = msgspec.field(default=UNSET, name="podIPs")
    start_time: Any = UNSET
    conditions: list[_Condition] | _Absent = UNSET
    container_statuses: list[_ContainerStatus] | _Absent = UNSET
    init_container_statuses: list[_ContainerStatus] | _Absent = UNSET


class Pod(_Part):
    """What is read of a pod."""

    metadata: _Metadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _JobAnnotations(_Part):
    prebuilt_workload: Any = msgspec.field(default=UNSET, name=keys.PREBUILT_WORKLOAD)


class _JobMetadata(_Part):
    name: Any = UNSET
    namespace: Any = UNSET
    uid: Any = UNSET
    resource_version: Any = UNSET
    generation: Any = UNSET
    creation_timestamp: Any = UNSET
    deletion_timestamp: Any = UNSET
    labels: Any = UNSET
    annotations: _JobAnnotations | _Absent = UNSET

    def __post_init__(self) -> None:
        if self.annotations and self.annotations.prebuilt_workload is UNSET:
            self.annotations = UNSET


class _Managed(_Part):
    """What counts of a spec that is too large."""

    managed_by: Any = UNSET
    run_policy: Any = UNSET


class _AnyJob(_Part):
    """What is read of a job: all that it asks for and says, without who wrote which field of it."""

    metadata: _JobMetadata
    api_version: Any = UNSET
    kind: Any = UNSET
    spec_bytes: int | UnsetType = UNSET
    """Of a spec that is too large: of it little is kept, and nothing decoded."""
    status: Any = UNSET


class _Job(_AnyJob):
    """Of what is decoded already."""

    spec: Any = UNSET

    def __post_init__(self) -> None:
        if self.spec is UNSET:
            return
        text = msgspec.json.encode(self.spec)
        if len(text) > MOST_BYTES:
            self.spec, self.spec_bytes = _managed(text), len(text)


class Job(_AnyJob):
    """Of JSON."""

    spec: msgspec.Raw = msgspec.Raw()

    def __post_init__(self) -> None:
        text = self.spec
        found: Any = UNSET
        if len(text) > MOST_BYTES:
            found, self.spec_bytes = _managed(text), len(text)
        elif text:
            found = msgspec.json.decode(text)
        self.spec = found


def _managed(text: bytes | msgspec.Raw) -> _Managed:
    return msgspec.json.decode(text, type=_Managed)


class _ServiceSpec(_Part):
    selector: Any = UNSET
    publish_not_ready_addresses: Any = UNSET


class Service(_Part):
    """What is read of a service."""

    metadata: _Metadata
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)


class _DisruptionBudget(_Part):
    metadata: _Metadata
    spec: Any = msgspec.field(default_factory=dict)


def pod(raw: _Object) -> _Object:
    """Return what is read of a pod."""
    return _cut(raw, Pod)


def service(raw: _Object) -> _Object:
    """Return what is read of a service."""
    return _cut(raw, Service)


def job(raw: _Object) -> _Object:
    """Return what is read of a job."""
    return _cut(raw, _Job)


def disruption_budget(raw: _Object) -> _Object:
    """Return what is read of a PodDisruptionBudget: all but its status."""
    return _cut(raw, _DisruptionBudget)


def other(raw: _Object) -> _Object:
    """Return an object of which there are few without what others noted in its metadata."""
    unread = ("managedFields", "annotations")
    metadata = {name: value for name, value in raw["metadata"].items() if name not in unread}
    return {**raw, "metadata": metadata}


def asks_the_same(kept: _Object | None, raw: _Object) -> bool:
    """Tell whether a version of a job differs from a kept one in its status alone; both are cut.

    Of a spec the generation tells, which the API server counts.
    """
    return kept is not None and _asked(kept) == _asked(raw)


def _asked(raw: _Object) -> _Object:
    return {name: v for name, v in raw["metadata"].items() if name != "resourceVersion"}


def _cut(raw: _Object, kind: type[_Part]) -> _Object:
    found: _Object = msgspec.to_builtins(msgspec.convert(raw, kind))
    return found
