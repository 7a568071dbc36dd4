"""Who is measured: a bare client, and our operator from one checkout or another."""

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
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
from bench.scale.cluster import Cluster, node
from bench.scale.processes import Process
from bench.scale.scrapes import scraped
from tools.ports import free_port

_Object = dict[str, Any]
ROOT = Path(__file__).parents[2]

IMAGE = "registry.invalid/trainer:bench"
ROLES = {"chief": 1, "worker": 4, "ps": 2, "evaluator": 1}
PODS = sum(ROLES.values())
_LEASES = "default"
"""The namespace of the shards' leases."""
TEMPLATE = {"spec": {"containers": [{"name": CONTAINER, "image": IMAGE}]}}


@dataclass(frozen=True, slots=True)
class Running:
    """A contender that is ready."""

    processes: tuple[Process, ...] = ()
    """Its processes; a bare client has none beside this one."""
    stalls: tuple[Path, ...] = ()
    """Where the longest turns of their event loops are noted."""

    def longest_stall(self, since: float) -> float | None:
        """Return the longest turn (s) of a loop after `since` (monotonic), None if unmeasured."""
        return max((stalls.longest(each, since) for each in self.stalls), default=None)

    def cpu(self) -> list[float]:
        """Return the CPU seconds that each process has used."""
        return [process.cpu() for process in self.processes]

    def problem(self) -> str | None:
        """Return which process has ended, None while all run."""
        found = (process.problem() for process in self.processes)
        return next((problem for problem in found if problem), None)

    def last_words(self) -> str:
        """Return the last lines of the logs."""
        return "\n".join(process.last_words() for process in self.processes)


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

    @property
    def only_creates(self) -> bool:
        """Whether nothing is measured of it but the creation of its pods."""

    def crds(self) -> Sequence[Path]:
        """Return the manifests of its CustomResourceDefinitions."""

    def started(self, cluster: Cluster, /, *, asking: bool) -> AbstractContextManager[Running]:
        """Run it until the end of the block; it is ready at its beginning.

        It may be left out that pods are asked for their progress if that is not measured.
        """

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, _Object]]:
        """Yield what to create for so many jobs of PODS pods, each with its collection's path."""


def owned_paths(namespace: str) -> tuple[str, str, str]:
    """Return the collections of what a job owns: pods, services, network policies."""
    core = f"/api/v1/namespaces/{namespace}"
    policies = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    return f"{core}/pods", f"{core}/services", policies


class Raw:
    """The same objects without an operator: the limit that the API server sets."""

    name = "the same objects by a bare client"
    agents = (client.AGENT,)
    collection = None
    asks = None
    only_creates = True

    def crds(self) -> Sequence[Path]:
        """Return none: it creates what jobs own, and no jobs."""
        return ()

    def started(self, _cluster: Cluster, /, *, asking: bool) -> AbstractContextManager[Running]:  # noqa: ARG002
        """Do nothing: this process is the client."""
        return nullcontext(Running())

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, _Object]]:
        """Yield all that our operator creates for them."""
        pods, services, policies = owned_paths(namespace)
        for number in range(jobs):
            raw = _our_job(job_name(number))
            uid = f"00000000-0000-0000-0000-{number:012}"
            raw["metadata"] |= {"namespace": namespace, "uid": uid}
            job = parse_job(raw, datetime.now(UTC))
            bodies = [desired.pod(job, role, i, 0, IMAGE) for role, i, _ in slots(job)]
            for path_of, body in (
                (policies, desired.network_policy(job, ())),
                (services, desired.service(job)),
                *((pods, body) for body in bodies),
            ):
                # The collector would take them for orphans of a job that is gone.
                del body["metadata"]["ownerReferences"]
                yield path_of, body


class Ours:
    """Our operator as it is shipped, from this checkout or from another one; or several shards."""

    collection = f"/apis/{API_VERSION}/namespaces/{{namespace}}/{PLURAL}"
    agents = ("tftraining-operator", "OpenAPI-Generator", "kopf")
    asks = f"{LABEL_ROLE}={Role.EVALUATOR}"

    def __init__(
        self,
        name: str,
        checkout: Path = ROOT,
        *,
        shards: int = 1,
        fair: bool = True,
        placed: bool = False,
    ) -> None:
        """Without fairness, its namespaces don't take turns; see stalls.

        Pods that are placed have their job's node in their template, and need no scheduler; for
        very many jobs. What it takes to ask those that run already is no cost of a new job.
        """
        self.name = name
        self.only_creates = not fair
        self._checkout = checkout
        self._shards = shards
        self._fair = fair
        self._placed = placed

    def crds(self) -> Sequence[Path]:
        """Return this checkout's, whichever is measured."""
        return (ROOT / "crds",)

    @contextmanager
    def started(self, cluster: Cluster, *, asking: bool) -> Iterator[Running]:
        """Run the operator's process, or one for each shard, all at once."""
        options = [] if self._fair else [stalls.UNFAIR]
        if self._placed and not asking:
            options.append(stalls.UNASKED)

        def start(number: int) -> tuple[Process, Path]:
            return stack.enter_context(self._process(cluster, number, options))

        with ExitStack() as stack:
            with ThreadPoolExecutor(self._shards) as threads:
                found = list(threads.map(start, range(self._shards)))
            yield Running(tuple(process for process, _ in found), tuple(file for _, file in found))

    @contextmanager
    def _process(
        self, cluster: Cluster, number: int, options: Sequence[str]
    ) -> Iterator[tuple[Process, Path]]:
        noted = cluster.folder / f"stalls-{free_port()}"
        probes = f"http://127.0.0.1:{free_port()}"
        metrics = free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{self._checkout / 'operator'}:{ROOT}",
            "KUBECONFIG": str(cluster.server.kubeconfig),
            "TFTRAINING_HEALTH": f"{probes}/healthz",
            "TFTRAINING_METRICS_PORT": str(metrics),
        }
        if self._shards > 1:
            environment |= {
                "TFTRAINING_LEASE_NAMESPACE": _LEASES,
                "TFTRAINING_LEASE_IDENTITY": f"shard-{number}",
                "TFTRAINING_SHARDS": str(self._shards),
            }
        command: list[str | Path] = [sys.executable, "-m", "bench.scale.stalls", noted, *options]
        log = cluster.folder / f"operator-{number}.log"
        with (
            processes.running(command, environment, log, f"{probes}/readyz") as process,
            scraped(f"http://127.0.0.1:{metrics}/metrics"),
        ):
            yield process, noted

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, _Object]]:
        """Yield TFTrainingJobs."""
        for number in range(jobs):
            job = _our_job(job_name(number))
            if self._placed:
                job["spec"]["template"] = {"spec": {**TEMPLATE["spec"], "nodeName": node(number)}}
            yield self.collection.format(namespace=namespace), job


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
            # With ten thousand jobs it takes more than the default of ten minutes.
            "runPolicy": {"startupDeadlineSeconds": 4 * 3600},
            "evaluator": {},
            "checkpoint": {"uri": f"gs://bench/{name}"},
            **roles,
        },
    }
