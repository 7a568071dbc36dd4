"""HorizontalPodAutoscalers with the rules of examples/autoscaling; chiefs and nodes are played."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.apiserver import PROGRAMS, running
from tests.conftest import ROOT, program_or_skip
from tests.integration.autoscaling import autoscaling
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.apiserver import ApiServer
    from tests.integration.autoscaling import Chiefs

_Object = dict[str, Any]

pytestmark = pytest.mark.timeout(180)

AUTOSCALER = ROOT / "examples/autoscaling/hpa.yaml"
PATIENCE = 60


@pytest.fixture(scope="module")
def scaled_server() -> Iterator[tuple[ApiServer, Chiefs]]:
    """An API server with all that scales jobs."""
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    names = ("prometheus", "prometheus-adapter", "kube-controller-manager")
    others = [program_or_skip(name) for name in names]
    with running(programs) as server:
        server.serve_crd(ROOT / "crds")
        with autoscaling(server, *others) as chiefs:
            yield server, chiefs


@pytest.fixture(scope="module")
def operator(
    scaled_server: tuple[ApiServer, Chiefs], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    server, _ = scaled_server
    found = Operator(server.kubeconfig, tmp_path_factory.mktemp("operator") / "log")
    found.start()
    yield found
    found.stop()


@dataclass(frozen=True, slots=True)
class Scaled:
    """A namespace with a job `mnist` and its autoscaler."""

    space: Namespace
    chiefs: Chiefs

    def start(self, *, workers: int, most: int = 8, speed: str | None = None) -> None:
        """Have a job with so many workers run, and scale it at once, from 1 worker to so many.

        By how busy they are, or so that each makes so many examples per second.
        """
        self.space.apply(manifest(worker={"replicas": workers}))
        autoscaler = yaml.safe_load(AUTOSCALER.read_text())
        autoscaler["spec"].update(minReplicas=1, maxReplicas=most)
        if speed is not None:
            (metric,) = autoscaler["spec"]["metrics"]
            metric["pods"]["metric"]["name"] = "tftraining_worker_examples_per_second"
            metric["pods"]["target"]["averageValue"] = speed
        for change in autoscaler["spec"]["behavior"].values():
            change.update(stabilizationWindowSeconds=0)
            for policy in change["policies"]:
                policy["periodSeconds"] = 1
        self.space.apply(autoscaler)

    def run(self, workers: int) -> None:
        """Let all pods of a job with so many workers run."""
        workers_ = (f"mnist-worker-{index}" for index in range(workers))
        self.space.wait_for_pods("mnist-chief-0", "mnist-ps-0", *workers_)
        self.space.run_all()

    def report(self, *waits: float) -> None:
        """Have the chief say for which fraction of its time each worker waits for data."""
        named = {f"worker_{index}": wait for index, wait in enumerate(waits)}
        self.chiefs.report(self.space.name, "mnist", **named)

    def report_speeds(self, *speeds: float) -> None:
        """Have the chief say how many examples per second each worker makes."""
        named = {f"worker_{index}": speed for index, speed in enumerate(speeds)}
        self.chiefs.report_speeds(self.space.name, "mnist", **named)

    def train_as_wanted(self, workers: int) -> None:
        """Have so many workers train, as busy as the autoscaler wants them."""
        self.start(workers=workers)
        self.run(workers)
        self.report(*[0.3] * workers)
        self.wait_for_load("700m")

    @property
    def workers(self) -> int:
        """How many workers the job is told to have."""
        found: int = self.space.job()["spec"]["worker"]["replicas"]
        return found

    def wait_for_workers(self, number: int) -> None:
        eventually(lambda: self.workers == number, f"{number} workers: {self.status}", PATIENCE)

    @property
    def status(self) -> _Object:
        path = f"/apis/autoscaling/v2/namespaces/{self.space.name}/horizontalpodautoscalers/mnist"
        found: _Object = self.space.server.request("GET", path).body.get("status", {})
        return found

    def wait_for_load(self, average: str) -> None:
        """Wait until the autoscaler has read this load of those workers that have one."""

        def read() -> list[str]:
            # Where it has looked and found none, it leaves an entry without a value.
            metrics = self.status.get("currentMetrics") or []
            return [each["pods"]["current"]["averageValue"] for each in metrics if "pods" in each]

        eventually(lambda: read() == [average], f"a load of {average}", PATIENCE)

    def wait_for_no_load(self) -> None:
        """Wait until the autoscaler says that there is none."""

        def active() -> _Object:
            conditions = self.status.get("conditions", [])
            return next((each for each in conditions if each["type"] == "ScalingActive"), {})

        eventually(
            lambda: active().get("reason") == "FailedGetPodsMetric",
            f"there is no load: {self.status}",
            PATIENCE,
        )


@pytest.fixture
def scaled(scaled_server: tuple[ApiServer, Chiefs], operator: Operator) -> Iterator[Scaled]:
    assert operator
    server, chiefs = scaled_server
    space = Namespace(server, f"test-{secrets.token_hex(4)}")
    server.kubectl("create", "namespace", space.name)
    yield Scaled(space, chiefs)
    space.kubectl("delete", "hpa,tftj", "--all", "--wait=false")


def test_busy_workers_get_more_beside_them_and_those_that_wait_for_data_get_fewer(
    scaled: Scaled,
) -> None:
    scaled.start(workers=2)
    scaled.run(2)
    scaled.report(0.0, 0.0)
    scaled.wait_for_workers(3)
    scaled.report(0.5, 0.5, 0.5)
    scaled.run(3)
    scaled.wait_for_load("500m")
    assert scaled.workers == 3
    scaled.report(0.9, 0.9, 0.9)
    scaled.wait_for_workers(1)


def test_workers_that_have_joined_no_cluster_yet_count_as_idle_so_that_no_more_are_added(
    scaled: Scaled,
) -> None:
    scaled.start(workers=1)
    scaled.run(1)
    scaled.report(0.0)
    scaled.wait_for_workers(2)
    scaled.run(2)
    scaled.report(0.1)
    scaled.wait_for_load("900m")
    assert scaled.workers == 2


def test_a_job_whose_chief_restarts_keeps_its_workers(scaled: Scaled) -> None:
    scaled.train_as_wanted(3)
    scaled.report()
    scaled.wait_for_no_load()
    assert scaled.workers == 3


def test_a_job_that_is_scaled_by_examples_keeps_its_workers_while_it_validates(
    scaled: Scaled,
) -> None:
    scaled.start(workers=3, speed="100")
    scaled.run(3)
    scaled.report_speeds(100, 100, 100)
    scaled.wait_for_load("100")
    scaled.report_speeds(0, 0, 0)
    scaled.wait_for_no_load()
    assert scaled.workers == 3


def test_a_suspended_job_is_not_scaled_though_prometheus_still_has_its_metrics(
    scaled: Scaled,
) -> None:
    scaled.train_as_wanted(3)
    suspended = '{"spec": {"runPolicy": {"suspend": true}}}'
    scaled.space.kubectl("patch", "tftj/mnist", "--type=merge", "-p", suspended)
    scaled.space.wait_for("Suspended")
    scaled.space.wait_for_pods()
    scaled.report(1.0, 1.0, 1.0)
    scaled.wait_for_no_load()
    assert scaled.workers == 3
    assert scaled.space.pods() == {}


def test_a_finished_job_is_not_scaled_though_prometheus_still_has_its_metrics(
    scaled: Scaled,
) -> None:
    scaled.train_as_wanted(3)
    scaled.space.end("mnist-chief-0", 0)
    scaled.space.wait_for("Succeeded")
    scaled.space.wait_for_pods("mnist-chief-0")
    scaled.report(1.0, 1.0, 1.0)
    scaled.wait_for_no_load()
    assert scaled.workers == 3


def test_a_finished_job_above_the_autoscalers_limit_starts_nothing_when_it_is_corrected(
    scaled: Scaled,
) -> None:
    scaled.start(workers=3, most=3)
    scaled.run(3)
    scaled.space.end("mnist-chief-0", 0)
    scaled.space.wait_for("Succeeded")
    scaled.space.wait_for_pods("mnist-chief-0")
    bounds = '{"spec": {"minReplicas": 4, "maxReplicas": 4}}'
    scaled.space.kubectl("patch", "hpa/mnist", "--type=merge", "-p", bounds)
    scaled.wait_for_workers(4)
    scaled.space.apply(manifest("later", worker={"replicas": 1}))
    scaled.space.wait_for_pods(
        "mnist-chief-0", *(f"later-{each}-0" for each in ("chief", "ps", "worker"))
    )
    assert scaled.space.condition("Succeeded")["status"] == "True"
