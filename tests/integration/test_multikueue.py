"""Jobs that the real Kueue gives to another cluster: two API servers, each with Kueue, an operator
and the garbage collector. The manager's Kueue works with its own account, and comes to the other
cluster with the account of docs/guide/multikueue.md, whose manifests are applied here.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.apiserver import PROGRAMS, collecting, running
from tests.conftest import ROOT, program_or_skip
from tests.integration.accounts import kubeconfig_of
from tests.integration.jobs import Namespace
from tests.integration.process import Operator
from tests.integration.test_kueue import a_job, conditions, pods_of, run, told
from tests.kueue import PATH, Kueue, installed
from tools.kueue import NAMESPACE
from tools.pages import code_blocks
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_Object = dict[str, Any]

pytestmark = pytest.mark.timeout(240)

PAGE = (ROOT / "docs" / "guide" / "multikueue.md").read_text()
JOB, ACCOUNT, CONFIGURATION, MANAGER = code_blocks(PAGE, "yaml")
PATIENCE = 60


@dataclass
class Cluster:
    """An API server with its Kueue and its operator."""

    kueue: Kueue
    operator: Operator

    def space(self, name: str) -> Namespace:
        return Namespace(self.kueue.server, name)


@dataclass
class Clusters:
    """The cluster where jobs are submitted, and the one that trains them."""

    manager: Cluster
    west: Cluster


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    with ExitStack() as stack:
        manager, west = (
            _cluster(stack, tmp_path_factory.mktemp(name)) for name in ("manager", "west")
        )
        west.kueue.start()
        stack.callback(west.kueue.stop)
        _connect(stack, manager.kueue, west.kueue)
        yield Clusters(manager, west)


def _cluster(stack: ExitStack, folder: Path) -> Cluster:
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    kueue, controllers = program_or_skip("kueue"), program_or_skip("kube-controller-manager")
    server = stack.enter_context(running(programs))
    server.serve_crd(ROOT / "crds")
    found = installed(server, kueue)
    stack.enter_context(collecting(controllers, server))
    operator = Operator(server.kubeconfig, folder / "log", {"TFTRAINING_GROUPS_SECONDS": "0.5"})
    operator.start()
    stack.callback(operator.stop)
    return Cluster(found, operator)


def _connect(stack: ExitStack, manager: Kueue, west: Kueue) -> None:
    """Do what the page says, for both clusters."""
    west.server.apply(*yaml.safe_load_all(ACCOUNT))
    path = kubeconfig_of(west.server, NAMESPACE, "multikueue", west.config.parent / "multikueue")
    given = json.loads(path.read_text())
    where = given["clusters"][0]["cluster"]
    ca = Path(where.pop("certificate-authority")).read_bytes()
    where["certificate-authority-data"] = b64encode(ca).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "west", "namespace": NAMESPACE},
        "data": {"kubeconfig": b64encode(json.dumps(given).encode()).decode()},
    }
    manager.use_its_account()
    config = json.loads(manager.config.read_text())
    config |= yaml.safe_load(CONFIGURATION)
    manager.config.write_text(json.dumps(config))
    manager.start()
    stack.callback(manager.stop)
    manager.server.apply(secret, *yaml.safe_load_all(MANAGER))


@pytest.fixture
def name(clusters: Clusters) -> str:
    """A namespace in both clusters, with a queue of the same name that has 6 CPUs in each."""
    found = f"test-{secrets.token_hex(4)}"
    for cluster in (clusters.manager, clusters.west):
        cluster.kueue.server.kubectl("create", "namespace", found)
    checks = {"admissionChecks": [{"name": "regions"}]}
    clusters.manager.kueue.queue(found, found, admissionChecksStrategy=checks)
    clusters.west.kueue.queue(found, found)
    eventually(
        lambda: (
            conditions(
                clusters.manager.kueue.server.request("GET", f"{PATH}/clusterqueues/{found}").body
            ).get("Active")
            == "True"
        ),
        "the queue is active: the manager is connected",
        PATIENCE,
    )
    return found


def submitted(space: Namespace, name: str, priority: str = "", **spec: Any) -> None:
    managed_by = yaml.safe_load(JOB.replace("\n  ...", ""))["spec"]["managedBy"]
    space.apply(a_job(space, name, priority, managedBy=managed_by, **spec))


def exists(space: Namespace, job: str) -> bool:
    path = f"/apis/tftraining.dev/v1alpha1/namespaces/{space.name}/tftrainingjobs/{job}"
    return space.server.request("GET", path).ok


def suspend(space: Namespace, job: str, *, value: bool) -> None:
    patch = json.dumps({"spec": {"runPolicy": {"suspend": value}}})
    space.kubectl("patch", "tftj", job, "--type=merge", "-p", patch)


def trains(here: Namespace, there: Namespace, job: str) -> None:
    """Wait until a job trains in the other cluster, and its status there is that of the manager."""
    eventually(lambda: exists(there, job), f"west has {job}", PATIENCE)
    run(there, job)
    eventually(
        lambda: bool(here.status(job)) and here.status(job) == there.status(job),
        f"the manager has the status of {job}",
        PATIENCE,
    )


def asked_for(workload: _Object) -> _Object:
    """Return a Workload's spec, without the empty metadata that Kueue's copies have."""
    spec: _Object = workload["spec"]
    for each in spec["podSets"]:
        assert not each["template"].pop("metadata", None)
    return spec


def test_a_job_trains_in_the_other_cluster_and_its_status_comes_back(
    clusters: Clusters, name: str
) -> None:
    here, there = clusters.manager.space(name), clusters.west.space(name)
    submitted(here, "mnist")
    trains(here, there, "mnist")
    assert here.status("mnist")["state"] == "Running"
    assert not here.pods()
    assert not here.services()
    sent, adopted = (c.kueue.workload(name, "mnist") for c in (clusters.manager, clusters.west))
    assert sent["status"]["clusterName"] == "west"
    assert asked_for(sent) == asked_for(adopted)
    assert conditions(adopted)["PodsReady"] == "True"

    there.end("mnist-chief-0", 0)
    here.wait_for("Succeeded", name="mnist", seconds=PATIENCE)
    finished = clusters.manager.kueue.workload
    eventually(
        lambda: conditions(finished(name, "mnist")).get("Finished") == "True", "it has finished"
    )
    eventually(lambda: not exists(there, "mnist"), "west has nothing left of it", PATIENCE)
    eventually(lambda: not there.pods(), "its pods are collected", PATIENCE)
    assert here.status("mnist")["state"] == "Succeeded"


def test_a_job_waits_for_the_manager_is_preempted_and_sent_again(
    clusters: Clusters, name: str
) -> None:
    here, there = clusters.manager.space(name), clusters.west.space(name)
    for value, priority in ((1, f"{name}-low"), (100, f"{name}-urgent")):
        for cluster in (clusters.manager, clusters.west):
            cluster.kueue.priority(priority, value)
    submitted(here, "red", f"{name}-low")
    trains(here, there, "red")

    submitted(here, "green", f"{name}-urgent")
    eventually(lambda: exists(there, "green"), "west has the urgent job", PATIENCE)
    eventually(lambda: not exists(there, "red"), "red was taken back", PATIENCE)
    run(there, "green")
    status = here.status("red")
    assert status["state"] == "Queued"
    assert f"in {name}: Kueue: " in status["message"]
    assert (status["queue"]["evictions"], status["queue"]["preemptions"]) == (1, 1)
    assert told(here, "red")[:2] == ["Queued", "Preempted"]

    there.end("green-chief-0", 0)
    here.wait_for("Succeeded", name="green", seconds=PATIENCE)
    trains(here, there, "red")


def test_suspending_takes_a_job_back_and_scaling_sends_it_anew(
    clusters: Clusters, name: str
) -> None:
    here, there = clusters.manager.space(name), clusters.west.space(name)
    submitted(here, "mnist")
    trains(here, there, "mnist")

    suspend(here, "mnist", value=True)
    here.wait_for("Suspended", name="mnist", seconds=PATIENCE)
    eventually(lambda: not exists(there, "mnist"), "it was taken back", PATIENCE)
    eventually(lambda: not there.pods(), "its pods are collected", PATIENCE)
    assert not clusters.manager.kueue.workload(name, "mnist")

    clusters.manager.kueue.set_quota(name, "8")
    clusters.west.kueue.set_quota(name, "8")
    suspend(here, "mnist", value=False)
    eventually(lambda: exists(there, "mnist"), "it is sent again", PATIENCE)
    here.kubectl("scale", "tftj/mnist", "--replicas=2")
    eventually(lambda: len(pods_of(there, "mnist")) == 4, "it has two workers", PATIENCE)
