"""Who is measured: a bare client, and our operator from one checkout or another."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tftraining_operator.api.keys import (
    API_VERSION,
    CONTAINER,
    KIND,
    LABEL_ROLE,
    PLURAL,
    Role,
)
from tftraining_operator.core import desired
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.observed import slots

from bench.scale import client, processes, stalls
from bench.scale.cluster import Cluster
from bench.scale.processes import Process
from tools.ports import free_port

_Object = dict[str, Any]
ROOT = Path(__file__).parents[2]

IMAGE = "registry.invalid/trainer:bench"
ROLES = {"chief": 1, "worker": 4, "ps": 2, "evaluator": 1}
PODS = sum(ROLES.values())
TEMPLATE = {"spec": {"containers": [{"name": CONTAINER, "image": IMAGE}]}}


@dataclass(frozen=True, slots=True)
class Running:
    """A contender that is ready."""

    process: Process | None = None
    """Its process; a bare client has none beside this one."""
    stalls: Path | None = None
    """Where the longest turns of its event loop are noted."""

    def longest_stall(self, since: float) -> float | None:
        """Return the longest turn (s) of its loop after `since` (monotonic), None if unmeasured."""
        return None if self.stalls is None else stalls.longest(self.stalls, since)


class Contender(Protocol):
    """Who makes pods of what is submitted."""

    @property
    def name(self) -> str:
        """What the tables call it."""

    @property
    def agents(self) -> tuple[str, ...]:
        """How the names begin by which its clients call themselves."""

    @property
    def collection(self) -> str | None:
        """Path of its jobs, with {namespace} in it; None if it has no jobs."""

    @property
    def asks(self) -> str | None:
        """Label selector of the evaluators if it asks pods for their progress, else None."""

    def crds(self) -> Sequence[Path]:
        """Return the manifests of its CustomResourceDefinitions."""

    def started(self, cluster: Cluster, /) -> AbstractContextManager[Running]:
        """Run it until the end of the block; it is ready at its beginning."""

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, _Object]]:
        """Yield what to create for so many jobs of PODS pods, each with its collection's path."""


class Raw:
    """The same objects without an operator: the limit that the API server sets."""

    name = "the same objects by a bare client"
    agents = (client.AGENT,)
    collection = None
    asks = None

    def crds(self) -> Sequence[Path]:
        """Return none: it creates pods and services."""
        return ()

    def started(self, _cluster: Cluster, /) -> AbstractContextManager[Running]:
        """Do nothing: this process is the client."""
        return nullcontext(Running())

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, _Object]]:
        """Yield the service and the pods that our operator creates."""
        path = f"/api/v1/namespaces/{namespace}"
        for number in range(jobs):
            raw = _our_job(job_name(number))
            uid = f"00000000-0000-0000-0000-{number:012}"
            raw["metadata"] |= {"namespace": namespace, "uid": uid}
            job = parse_job(raw, datetime.now(UTC))
            bodies = [desired.pod(job, role, i, 0, IMAGE) for role, i, _ in slots(job)]
            for path_of, body in (
                (f"{path}/services", desired.service(job)),
                *((f"{path}/pods", body) for body in bodies),
            ):
                # The collector would take them for orphans of a job that is gone.
                del body["metadata"]["ownerReferences"]
                yield path_of, body


class Ours:
    """Our operator as it is shipped, from this checkout or from another one."""

    collection = f"/apis/{API_VERSION}/namespaces/{{namespace}}/{PLURAL}"
    agents = ("tftraining-operator", "OpenAPI-Generator", "kopf")
    asks = f"{LABEL_ROLE}={Role.EVALUATOR}"

    def __init__(self, name: str, checkout: Path, **settings: str) -> None:
        self.name = name
        self._checkout = checkout
        self._settings = settings

    def crds(self) -> Sequence[Path]:
        """Return this checkout's, whichever is measured."""
        return (ROOT / "crds",)

    @contextmanager
    def started(self, cluster: Cluster) -> Iterator[Running]:
        """Run the operator's process."""
        noted = cluster.folder / f"stalls-{free_port()}"
        probes = f"http://127.0.0.1:{free_port()}"
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{self._checkout / 'operator'}:{ROOT}",
            "KUBECONFIG": str(cluster.server.kubeconfig),
            "TFTRAINING_HEALTH": f"{probes}/healthz",
            "TFTRAINING_METRICS_PORT": str(free_port()),
            **self._settings,
        }
        command: list[str | Path] = [sys.executable, "-m", "bench.scale.stalls", noted]
        log = cluster.folder / "operator.log"
        with processes.running(command, environment, log, f"{probes}/readyz") as process:
            yield Running(process, noted)

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, _Object]]:
        """Yield TFTrainingJobs."""
        for number in range(jobs):
            yield self.collection.format(namespace=namespace), _our_job(job_name(number))


def job_name(number: int) -> str:
    """Return the name of a job."""
    return f"job-{number}"


def _our_job(name: str) -> _Object:
    roles: _Object = {
        role: {"replicas": count} for role, count in ROLES.items() if role in ("worker", "ps")
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "template": TEMPLATE,
            "evaluator": {},
            "checkpoint": {"uri": f"gs://bench/{name}"},
            **roles,
        },
    }
