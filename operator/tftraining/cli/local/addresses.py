"""Loopback addresses in place of those that a cluster gives to pods."""

import errno
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from tftraining_operator.api.keys import Role
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import address
from tftraining_operator.core.observed import slots
from tftraining_operator.core.roles import traits

from tftraining.errors import TFTrainingError

HOST = "127.0.0.1"
# Below those that the kernel gives to outgoing connections, which may take a port that a task
# leaves for a moment while it restarts.
_PORTS = range(20_000, 32_000)
_TRIES = 2_000


@dataclass(frozen=True, slots=True)
class Addresses:
    """Ports of a job's tasks, the same for all its attempts."""

    cluster: dict[str, int]
    """TensorFlow's port of each pod, by the pod's name."""
    progress: dict[Role, int]
    """Ports at which chief and evaluator, one pod each, serve /progress."""
    names: dict[str, str]
    """The loopback address for each address that the operator computes."""


def choose_addresses(job: Job) -> Addresses:
    """Choose a free port for every server of the job. Raises TFTrainingError."""
    tasks = list(slots(job))
    reporting = [r for r, _, _ in tasks if traits(job.spec.strategy, r).reports_progress]
    ports = free_ports(len(tasks) + len(reporting))
    cluster = {name: port for (_, _, name), port in zip(tasks, ports, strict=False)}
    return Addresses(
        cluster=cluster,
        progress=dict(zip(reporting, ports[len(tasks) :], strict=True)),
        names={
            _address(job, role, index): f"{HOST}:{cluster[name]}" for role, index, name in tasks
        },
    )


def free_ports(count: int) -> Sequence[int]:
    """Return `count` ports that are free now. Raises TFTrainingError."""
    found: set[int] = set()
    for port in random.sample(_PORTS, _TRIES):
        if len(found) == count:
            break
        if _is_free(port):
            found.add(port)
    if len(found) < count:
        raise TFTrainingError(f"fewer than {count} free ports from {_PORTS[0]} to {_PORTS[-1]}")
    return list(found)


def connects(port: int) -> bool:
    """Return whether a local port accepts connections."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0):
            return True
    except OSError:
        return False


def _is_free(port: int) -> bool:
    # On every address, as TensorFlow's servers listen.
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def _address(job: Job, role: Role, index: int) -> str:
    return address(job.name, job.namespace, role, index)
