"""etcd is restored while jobs train: to the API server time goes back, to the pods it does not."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tftraining_operator.controller.main import LOST

from tests.apiserver import PROGRAMS, ApiServer, running
from tests.conftest import ROOT, program_or_skip
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server whose data are the test's own."""
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    with running(programs) as found:
        found.serve_crd(ROOT / "crds")
        yield found


@pytest.fixture
def operator(server: ApiServer, tmp_path: Path) -> Iterator[Operator]:
    lease = {"TFTRAINING_LEASE_NAMESPACE": "default", "TFTRAINING_LEASE_IDENTITY": "operator"}
    running = Operator(server.kubeconfig, tmp_path / "log", lease)
    running.start()
    yield running
    running.stop()


def trains(space: Namespace, name: str) -> dict[str, str]:
    """Have a job that trains; return the uids of its pods."""
    space.apply(manifest(name))
    space.wait_for("Accepted", name=name)
    pods = eventually(lambda: found if len(found := uids(space, name)) == 4 else None, "its pods")
    space.run(*sorted(pods, key=lambda pod: "-chief-" in pod))
    space.wait_for("Running", name=name)
    return pods


def uids(space: Namespace, job: str) -> dict[str, str]:
    pods = space.pods().items()
    return {name: pod["metadata"]["uid"] for name, pod in pods if name.startswith(f"{job}-")}


def test_etcd_is_restored_while_jobs_train(
    server: ApiServer, operator: Operator, tmp_path: Path
) -> None:
    space = Namespace(server, "default")
    steady, moved, ended = (trains(space, name) for name in ("steady", "moved", "ended"))
    backup = tmp_path / "backup"
    with server.stopped() as data:
        shutil.copytree(data, backup)

    # What the backup does not know: another chief and worker, the end of a job, and a new job.
    if not operator.runs():  # the lease could not be renewed for so long
        operator.start()
    space.end("moved-chief-0", 75, "a parameter server was lost")
    eventually(lambda: space.attempt("moved-chief-0") == "1", "the next chief")
    space.run("moved-chief-0")
    space.delete_pod("moved-worker-0")
    worker = "moved-worker-0"
    eventually(lambda: uids(space, "moved").get(worker) not in (None, moved[worker]), worker)
    space.run("moved-worker-0")
    space.wait_for("Running", name="moved")
    space.end("ended-chief-0", 0)
    space.wait_for("Succeeded", name="ended")
    trains(space, "late")

    with server.stopped() as data:
        shutil.rmtree(data)
        shutil.copytree(backup, data)
    assert "late" not in space.kubectl("get", "tftj")

    # What it knows, and from where it watches, is of the other time: it is started anew.
    assert operator.wait(30) == LOST
    operator.start()

    # To the API server all trains as it did when the backup was made; that is left alone.
    trains(space, "after")
    for name, pods in (("steady", steady), ("moved", moved), ("ended", ended)):
        assert uids(space, name) == pods
        assert space.status(name)["attempt"] == 0
        assert space.condition("Running", name)["status"] == "True"
    assert not uids(space, "late")

    # The kubelets have no such chief and worker any more, nor what had succeeded.
    for pod in ("moved-chief-0", "moved-worker-0", *ended):
        space.delete_pod(pod)
    for job, pods in (("moved", moved), ("ended", ended)):
        servers = pods.keys() - {f"{job}-chief-0"}
        eventually(lambda job=job, needed=servers: needed <= uids(space, job).keys(), "its servers")
        space.run(*servers)
        eventually(lambda job=job: space.attempt(f"{job}-chief-0") == "1", "the next chief")
        space.run(f"{job}-chief-0")
        space.wait_for("Running", name=job)
    assert uids(space, "steady") == steady
    space.end("steady-chief-0", 0)
    space.wait_for("Succeeded", name="steady")
