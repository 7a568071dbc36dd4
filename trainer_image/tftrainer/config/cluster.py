"""Parses TF_CONFIG: the members of the cluster, and which of them this process is. Pure.

Both forms are read: lists of addresses, and the sparse form in which a worker or ps of a very large
cluster gets its own address alone, keyed by its index.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tftrainer.errors import BadConfigurationError


class Role(StrEnum):
    """TensorFlow's task types."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class Task:
    """One member of the cluster by role and index."""

    role: Role
    index: int

    @property
    def device(self) -> str:
        """What TensorFlow calls its CPU."""
        return f"/job:{self.role}/task:{self.index}/device:CPU:0"

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True)
class Member:
    """A task and where it listens, as host:port."""

    task: Task
    address: str

    @property
    def name(self) -> str:
        """What people call it: by its pod, for a chief's list of workers may leave some out.

        Where the address is no pod's, by the task.
        """
        pod = self.host.partition(".")[0]
        found = re.search(rf"-({self.task.role}-\d+)$", pod)
        return found[1] if found else str(self.task)

    @property
    def host(self) -> str:
        """The name or IP without the port; brackets of an IPv6 address taken off."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port that the task's gRPC server listens on."""
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Cluster:
    """The members that this task was told about, and which one it is."""

    task: Task
    members: tuple[Member, ...]

    @property
    def own(self) -> Member:
        """The member that this process is."""
        return next(member for member in self.members if member.task == self.task)

    @property
    def peers(self) -> tuple[Member, ...]:
        """Every other member that takes part in training; an evaluator never does."""
        return tuple(
            member
            for member in self.members
            if member.task != self.task and member.task.role is not Role.EVALUATOR
        )

    def of(self, role: Role) -> tuple[Member, ...]:
        """Return the members of one role by rising index."""
        return tuple(member for member in self.members if member.task.role is role)

    def located(self, role: Role, find: Callable[[Member], Member]) -> "Cluster":
        """Return the cluster with the members of a role where they are found."""
        members = (find(each) if each.task.role is role else each for each in self.members)
        return replace(self, members=tuple(members))

    def addresses(self) -> dict[str, list[str]]:
        """Return what the chief's strategy is built from.

        The evaluator is taken out: the chief would connect to it as well, and block for ever.
        """
        roles = (Role.CHIEF, Role.WORKER, Role.PS)
        return {str(r): [m.address for m in self.of(r)] for r in roles if self.of(r)}


def parse(text: str) -> Cluster:
    """Read a TF_CONFIG; raises BadConfigurationError with what is wrong in it."""
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise _bad(f"it is not valid JSON ({error})") from error
    if not isinstance(config, dict):
        raise _bad("it is not a JSON object")
    cluster, task = config.get("cluster"), config.get("task")
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        raise _bad('the objects "cluster" and "task" are required')
    members = tuple(
        sorted(
            (member for role, entry in cluster.items() for member in _members(role, entry)),
            key=lambda member: (tuple(Role).index(member.task.role), member.task.index),
        )
    )
    own = Task(_role(task.get("type")), _index(task.get("index")))
    if own not in [member.task for member in members]:
        raise _bad(f"the task {own} is not in the cluster")
    return Cluster(task=own, members=members)


def _members(role: str, entry: Any) -> Iterator[Member]:  # noqa: ANN401 -- raw JSON
    if isinstance(entry, list):
        entry = dict(enumerate(entry))
    if not isinstance(entry, dict):
        raise _bad(f'"{role}" must be a list of addresses, or an object of index: address')
    for index, address in entry.items():
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not port.isdigit():
            raise _bad(f'the address {address!r} of "{role}" is not of the form host:port')
        yield Member(Task(_role(role), _index(index)), address)


def _role(name: Any) -> Role:  # noqa: ANN401 -- raw JSON
    try:
        return Role(name)
    except ValueError as error:
        raise _bad(f"unknown task type {name!r}; choose from {', '.join(Role)}") from error


def _index(value: Any) -> int:  # noqa: ANN401 -- raw JSON
    if isinstance(value, bool) or not str(value).isdigit():
        raise _bad(f"the task index {value!r} is not a non-negative integer")
    return int(value)


def _bad(what: str) -> BadConfigurationError:
    return BadConfigurationError(
        f"invalid TF_CONFIG: {what}. The operator sets this variable; "
        "unset it to train on this computer alone."
    )
