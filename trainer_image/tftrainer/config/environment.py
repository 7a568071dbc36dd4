"""Reads the environment variables of the contract (tests/contract/environment.json). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tftrainer.config.cluster import Cluster, Role, Task, parse
from tftrainer.errors import BadConfigurationError


class Strategy(StrEnum):
    """How the work is spread; the names of spec.strategy, and LOCAL for a computer alone."""

    PARAMETER_SERVER = "ParameterServer"
    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    MIRRORED = "Mirrored"
    LOCAL = "Local"


@dataclass(frozen=True, slots=True)
class Environment:
    """What the operator set for this process."""

    job: str
    job_uid: str
    strategy: Strategy
    attempt: int
    workers: int
    checkpoint_dir: str | None
    checkpoint_step: int | None
    resume_from: str | None
    progress_port: int | None
    termination_log: Path
    cluster: Cluster | None

    @property
    def task(self) -> Task:
        """The task of this process; without a cluster it is the chief."""
        return self.cluster.task if self.cluster else Task(Role.CHIEF, 0)


def read(variables: Mapping[str, str]) -> Environment:
    """Read the variables; raises BadConfigurationError that names the variable."""
    text = variables.get("TF_CONFIG", "").strip()
    cluster = parse(text) if text and text != "{}" else None
    known_workers = len(cluster.of(Role.WORKER)) if cluster else 0
    return Environment(
        job=variables.get("TFTRAINING_JOB", ""),
        job_uid=variables.get("TFTRAINING_JOB_UID", ""),
        strategy=_strategy(variables.get("TFTRAINING_STRATEGY", ""), cluster),
        attempt=_number(variables, "TFTRAINING_ATTEMPT") or 0,
        workers=_number(variables, "TFTRAINING_WORKERS") or known_workers,
        checkpoint_dir=variables.get("TFTRAINING_CHECKPOINT_DIR") or None,
        checkpoint_step=_number(variables, "TFTRAINING_CHECKPOINT_STEP"),
        resume_from=variables.get("TFTRAINING_RESUME_FROM") or None,
        progress_port=_number(variables, "TFTRAINING_PROGRESS_PORT"),
        termination_log=termination_log(variables),
        cluster=cluster,
    )


def termination_log(variables: Mapping[str, str]) -> Path:
    """Return the path of the termination log, even if the other variables are invalid."""
    return Path(variables.get("TFTRAINING_TERMINATION_LOG") or "/dev/termination-log")


def _strategy(name: str, cluster: Cluster | None) -> Strategy:
    try:
        wanted = Strategy(name) if name else None
    except ValueError as error:
        known = ", ".join(Strategy)
        raise BadConfigurationError(
            f"unknown TFTRAINING_STRATEGY {name!r}; choose from {known}."
        ) from error
    if cluster is None:
        if wanted in (Strategy.PARAMETER_SERVER, Strategy.MULTI_WORKER_MIRRORED):
            raise BadConfigurationError(
                f"TFTRAINING_STRATEGY is {wanted}, but TF_CONFIG is not set: this strategy "
                "requires a cluster. Unset both to train on this computer alone."
            )
        return wanted or Strategy.LOCAL
    return _checked(wanted or _by_members(cluster), cluster)


def _by_members(cluster: Cluster) -> Strategy:
    roles = {member.task.role for member in cluster.members}
    if Role.PS in roles or (cluster.task.role is Role.WORKER and Role.CHIEF not in roles):
        return Strategy.PARAMETER_SERVER
    return Strategy.MULTI_WORKER_MIRRORED if Role.WORKER in roles else Strategy.MIRRORED


def _checked(strategy: Strategy, cluster: Cluster) -> Strategy:
    if cluster.task.role is not Role.CHIEF or strategy is not Strategy.PARAMETER_SERVER:
        return strategy
    missing = [str(role) for role in (Role.WORKER, Role.PS) if not cluster.of(role)]
    if missing:
        raise BadConfigurationError(
            f"TF_CONFIG has no {' and no '.join(missing)}: the ParameterServer strategy requires "
            "at least one worker and one ps."
        )
    return strategy


def _number(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit():
        raise BadConfigurationError(f"{name} is {text!r}; it must be a non-negative integer.")
    return int(text)
