"""What the operator has to know of a scheduler to have a gang placed.

core/gang.py decides that there is a gang and who is in it; core/desired.py makes the object and the
pods of what is said here. Each scheduler has one kind of object, all of them called PodGroup.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GroupApi:
    """The resource of a scheduler's groups."""

    group: str
    versions: tuple[str, ...]
    """Those that the operator can use, the newest first."""
    needs: str
    """What the cluster needs in order to serve it."""
    value: str
    """Value of the chart by which the operator may use it."""
    plural: str = "podgroups"

    @property
    def resource(self) -> str:
        """Return the resource as kubectl takes it, such as podgroups.v1.example.com."""
        return f"{self.plural}.{self.versions[0]}.{self.group}"


@dataclass(frozen=True, slots=True)
class Group:
    """A gang to be placed."""

    name: str
    version: str
    """Of the scheduler's API, as the cluster serves it."""
    members: int
    """Number of pods that get a node all at once."""
    requests: Mapping[str, str] = field(default_factory=dict)
    """What these pods request together, as quantities by resource."""
    queue: str | None = None
    priority_class_name: str | None = None
    """That of all pods of the gang, None if they have several or none."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a pod carries so that its scheduler knows it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pod's spec that the operator sets."""
    scheduler_name: str | None = None
    """The pod's scheduler, unless the template names one."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[_Object, ...] = ()
    gates: tuple[str, ...] = ()
    """Scheduling gates, which somebody else opens."""
    advice: str = "which spec.scheduling decides: remove one of the two"
    """Who decides what the pod's template says otherwise, and what to do."""


class Scheduler(Protocol):
    """One scheduler that can place a gang."""

    api: GroupApi
    groups_later_pods: bool
    """Whether pods that come after the gang need a group too."""

    def group_spec(self, group: Group) -> _Object:
        """Return the spec of the group's object. It is never changed."""

    def member(self, group: str) -> Carried:
        """Return what a pod of the gang carries, by the name of its group."""

    def single(self, group: str | None) -> Carried:
        """Return what a pod carries that is scheduled by itself, by the name of later pods' group.

        It is None for a scheduler that needs no such group.
        """

    def explanation(self, group: _Object) -> str:
        """Return why a group as the API server has it is not placed, "" if it does not say."""

    def pod_explanation(self, message: str) -> str:
        """Return why a pod of the gang is not placed, "" if it waits only for the others.

        `message` is what the scheduler says of the pod.
        """


def condition(raw: _Object, kind: str) -> _Object:
    """Return a condition of a group, {} if it is absent."""
    found = (raw.get("status") or {}).get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})
