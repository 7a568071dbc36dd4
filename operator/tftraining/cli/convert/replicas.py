"""The replicas of a TFJob, and which strategy and roles they are here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.text import counted

from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.tfjob_api import MASTER, REPLICA_TYPES, ROLES

_Map = Mapping[str, Any]

_ORDER = tuple(REPLICA_TYPES)
_FIELDS = frozenset({"replicas", "template", "restartPolicy"})


@dataclass(frozen=True, slots=True)
class Replica:
    """One entry of tfReplicaSpecs that asks for at least one pod."""

    key: str
    role: Role
    count: int
    raw: _Map

    @property
    def path(self) -> str:
        """Where it stands in the TFJob."""
        return f"spec.tfReplicaSpecs.{self.key}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a TFJob is here."""

    strategy: Strategy | None
    """None for the default."""
    roles: Mapping[Role, int]
    """How many pods each role has, in the order in which they are written."""
    source: Mapping[Role, Role] = field(default_factory=dict)
    """Whose replica a role is made of, if not of its own."""
    findings: tuple[Finding, ...] = ()


def read_replicas(spec: _Map, findings: list[Finding]) -> list[Replica]:
    """Return the replicas in the order chief, worker, ps, evaluator. Raises RefusedError."""
    where = "spec.tfReplicaSpecs"
    given = spec.get("tfReplicaSpecs")
    if not isinstance(given, Mapping) or not given:
        raise RefusedError(where, "is required: it says which pods the job has")
    found: list[Replica] = []
    for key, raw in given.items():
        role = ROLES.get(str(key).lower())
        path = f"{where}.{key}"
        if role is None:
            raise RefusedError(
                path, "unknown type; it is one of Chief, Master, Worker, PS, Evaluator"
            )
        if not isinstance(raw, Mapping):
            raise RefusedError(path, "must be an object with replicas and template")
        count = 1 if raw.get("replicas") is None else raw["replicas"]
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise RefusedError(f"{path}.replicas", f"must be a number of pods, not {count}")
        findings += [
            Finding(Level.LOST, f"{path}.{name}", "unknown field; left out")
            for name in sorted(set(raw) - _FIELDS)
        ]
        if any(each.role is role for each in found):
            raise RefusedError(path, f"a second {role.value}; keep one of them")
        if count:
            found.append(Replica(str(key), role, count, raw))
            findings += _of_name(found[-1])
    return sorted(found, key=lambda each: _ORDER.index(each.role))


def _of_name(replica: Replica) -> Iterator[Finding]:
    if replica.key.lower() == MASTER:
        text = (
            f"its task is {replica.role.value} in TF_CONFIG and in its pod's name: a script that"
            f" looks for {MASTER} has to look for {replica.role.value}"
        )
        yield Finding(Level.DIFFERS, replica.path, text)


def shape_of(replicas: list[Replica]) -> Shape:
    """Return strategy and roles. Raises RefusedError for what no strategy here is."""
    counts = {each.role: each.count for each in replicas}
    paths = {each.role: each.path for each in replicas}
    chiefs, workers = counts.get(Role.CHIEF, 0), counts.get(Role.WORKER, 0)
    _check_counts(counts, paths)
    evaluator = {Role.EVALUATOR: 1} if Role.EVALUATOR in counts else {}
    if Role.PS in counts:
        return _parameter_server(counts, paths, evaluator)
    if chiefs and workers:
        return Shape(
            Strategy.MULTI_WORKER_MIRRORED, {Role.CHIEF: 1, Role.WORKER: workers, **evaluator}
        )
    if chiefs:
        return Shape(Strategy.MIRRORED, {Role.CHIEF: 1, **evaluator})
    chief_of = {Role.CHIEF: Role.WORKER}
    if workers == 1:
        text = "one worker is the chief of strategy Mirrored here: its pod is called chief-0"
        finding = Finding(Level.DIFFERS, paths[Role.WORKER], text)
        return Shape(Strategy.MIRRORED, {Role.CHIEF: 1, **evaluator}, chief_of, (finding,))
    if workers:
        left = workers - 1
        text = (
            f"{workers} workers are a chief and {counted(left, 'worker')} of strategy"
            " MultiWorkerMirrored here: worker 0 is the chief in TF_CONFIG and in its pod's name,"
            " worker 1 is worker 0, and so on; a script that looks for task worker 0 has to look"
            " for the chief as well"
        )
        finding = Finding(Level.DIFFERS, f"{paths[Role.WORKER]}.replicas", text)
        roles = {Role.CHIEF: 1, Role.WORKER: left, **evaluator}
        return Shape(Strategy.MULTI_WORKER_MIRRORED, roles, chief_of, (finding,))
    raise RefusedError("spec.tfReplicaSpecs", "has neither a chief nor a worker")


def _check_counts(counts: Mapping[Role, int], paths: Mapping[Role, str]) -> None:
    for role in (Role.CHIEF, Role.EVALUATOR):
        if counts.get(role, 0) > 1:
            path = f"{paths[role]}.replicas"
            raise RefusedError(path, f"a job has at most one {role.value} here: set 1")


def _parameter_server(
    counts: Mapping[Role, int], paths: Mapping[Role, str], evaluator: Mapping[Role, int]
) -> Shape:
    if Role.CHIEF not in counts:
        raise RefusedError(
            paths[Role.PS],
            "parameter servers without a chief train between graphs (TensorFlow 1), where each"
            " worker runs the training loop; here a chief coordinates the workers: rewrite the"
            " script for ParameterServerStrategy with a ClusterCoordinator, or make a task of it"
            " for the trainer image (docs/guide/user-code.md), and add a Chief",
        )
    if Role.WORKER not in counts:
        raise RefusedError(paths[Role.PS], "strategy ParameterServer needs workers: add a Worker")
    roles = {
        Role.CHIEF: 1,
        Role.WORKER: counts[Role.WORKER],
        Role.PS: counts[Role.PS],
        **evaluator,
    }
    text = (
        "the chief must be the coordinator of a ParameterServerStrategy, and workers and parameter"
        " servers must serve until they are stopped: a worker that trains by itself is not waited"
        " for"
    )
    return Shape(None, roles, findings=(Finding(Level.DIFFERS, paths[Role.PS], text),))
