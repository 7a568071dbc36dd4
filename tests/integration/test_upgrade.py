"""The operator is upgraded and rolled back while jobs of either version are in every state."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.apiserver import PROGRAMS, ApiServer, running
from tests.conftest import program_or_skip
from tests.integration.jobs import Namespace, manifest, writes
from tests.integration.process import Operator
from tests.integration.versions import (
    THIS,
    Fleet,
    Version,
    chief_reports,
    snapshots,
    version_before,
)
from tools.waiting import eventually

# Each change of version takes the operator some seconds to start and to come to rest.
pytestmark = pytest.mark.timeout(240)

NEWER_STATUS = {
    "futureField": {"word": "kept"},
    "progress": {"step": 7, "updatedAt": "2026-01-02T03:04:05Z", "futureExamples": 700},
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return version_before(tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server whose CRD is exchanged, and whose writes are counted."""
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    with running(programs) as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with chief_reports() as found:
        yield found


@pytest.fixture
def space(server: ApiServer, request: pytest.FixtureRequest) -> Namespace:
    name = f"upgrade-{abs(hash(request.node.name)) % 10**8}"
    made = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.ok, made.message
    return Namespace(server, name)


@pytest.fixture
def operator(space: Namespace, tmp_path: Path) -> Iterator[Operator]:
    """An operator for the test's namespace, not started yet."""
    found = Operator(
        space.server.kubeconfig, tmp_path / "log", {"TFTRAINING_NAMESPACES": space.name}
    )
    yield found
    found.stop()


def run(operator: Operator, version: Version, **settings: str) -> None:
    """Exchange the running operator for one of another version, as a Deployment does."""
    try:
        operator.stop()
    except subprocess.TimeoutExpired:
        # The version before had kopf watch the jobs, whose watch loses its cancellation if it ends
        # by itself at that moment, as where the CRD is exchanged.
        if operator.settings["PYTHONPATH"] == str(THIS.code):
            raise
    operator.settings |= {"PYTHONPATH": str(version.code), **settings}
    operator.start()


def wait_until_at_rest(operator: Operator, server: ApiServer, what: str) -> None:
    """Wait until the operator writes nothing any more; one that writes for ever fails here."""
    counted: list[dict[str, int]] = []

    def rests() -> bool:
        counted.append(writes(server))
        return len(counted) > looks and counted[-1] == counted[-1 - looks]

    looks = 3
    eventually(rests, f"{what}: the operator is at rest; its log: {operator.log}", 45)


def test_jobs_outlive_upgrades_and_rollbacks(
    space: Namespace, operator: Operator, before: Version, address: str
) -> None:
    server = space.server
    server.serve_crd(before.crds)
    run(operator, before)
    Fleet(space, before, "old-", address=address).create()
    wait_until_at_rest(operator, server, "the version before")
    known = snapshots(space, before)

    # Helm leaves a CRD as it is; whoever rolls back by applying the old manifests does not.
    for what, version, crd in (
        ("upgrade", THIS, THIS),
        ("rollback with the CRD", before, before),
        ("second upgrade", THIS, THIS),
        ("rollback that leaves the CRD", before, THIS),
        ("third upgrade", THIS, THIS),
    ):
        server.serve_crd(crd.crds)
        run(operator, version)
        wait_until_at_rest(operator, server, what)
        assert snapshots(space, version) == known, what
        if what == "upgrade":
            Fleet(space, version, "new-", address=address).create()
            wait_until_at_rest(operator, server, "jobs of this version")
            known = snapshots(space, version)

    for prefix in ("old-", "new-"):
        space.delete_pod(f"{prefix}training-worker-1")
    replaced = {"old-training-worker-1", "new-training-worker-1"}
    eventually(lambda: replaced <= space.pods().keys(), "the deleted workers are replaced")


@pytest.mark.parametrize("started_by", ["the version before", "this version"])
def test_a_replaced_pod_has_the_image_that_its_job_started_with(
    space: Namespace, operator: Operator, before: Version, started_by: str
) -> None:
    space.server.serve_crd(THIS.crds)
    version = before if started_by == "the version before" else THIS
    run(operator, version, TFTRAINING_TRAINER_IMAGE="trainer:1")
    Fleet(space, version).create("training")
    run(operator, THIS, TFTRAINING_TRAINER_IMAGE="trainer:2")
    Fleet(space, THIS, "later-").create("starting")

    space.delete_pod("training-worker-1")
    eventually(lambda: "training-worker-1" in space.pods(), "a new worker-1")
    space.run("training-worker-1")
    space.end("training-chief-0", 75, "a parameter server was lost")
    eventually(lambda: space.attempt("training-chief-0") == "1", "a new chief")

    images = {name: pod["spec"]["containers"][0]["image"] for name, pod in space.pods().items()}
    assert images == {
        name: "trainer:2" if name.startswith("later-") else "trainer:1" for name in space.pods()
    }


def test_a_job_that_this_version_would_refuse_goes_on_if_it_has_started(
    space: Namespace, operator: Operator, before: Version
) -> None:
    space.server.serve_crd(before.crds)
    run(operator, before)
    Fleet(space, before).create("training", checkpoint={"uri": "gs://bucket/two words"})
    space.server.serve_crd(THIS.crds)
    run(operator, THIS)
    wait_until_at_rest(operator, space.server, "upgrade")

    assert space.condition("Running", "training")["status"] == "True"
    space.delete_pod("training-worker-1")
    eventually(lambda: "training-worker-1" in space.pods(), "a new worker-1")
    for suspend, expected in ((True, "True"), (False, "False")):
        patch = json.dumps({"spec": {"runPolicy": {"suspend": suspend}}})
        space.kubectl("patch", "tftj", "training", "--type=merge", "-p", patch)
        space.wait_for("Suspended", expected, "training")
    servers = {"training-ps-0", "training-worker-0", "training-worker-1"}
    eventually(lambda: servers <= space.pods().keys(), "the servers of a job that is resumed")
    assert space.condition("Accepted", "training")["status"] == "True"
    assert space.status("training")["restarts"] == 0


def test_a_newer_crd_and_status_harm_no_job(
    space: Namespace, operator: Operator, address: str, tmp_path: Path
) -> None:
    space.server.serve_crd(THIS.crds)
    run(operator, THIS)
    Fleet(space, THIS, address=address).create()
    wait_until_at_rest(operator, space.server, "this CRD")
    known = snapshots(space, THIS)
    operator.stop()

    space.server.serve_crd(newer_crd(tmp_path))
    for name in known:
        space.patch_status(name, NEWER_STATUS)
    assert space.job("training")["spec"]["runPolicy"]["futureSeconds"] == 5
    operator.start()
    wait_until_at_rest(operator, space.server, "a newer CRD")

    assert "Traceback" not in operator.logged()
    assert snapshots(space, THIS) == known
    space.delete_pod("training-worker-1")
    eventually(lambda: "training-worker-1" in space.pods(), "a new worker-1")
    Fleet(space, THIS, "new-", address=address).create("training")
    kept = {name: space.status(name).get("futureField") for name in known}
    assert kept == dict.fromkeys(known, NEWER_STATUS["futureField"])


def test_shards_read_all_jobs_while_the_crd_is_that_of_before(
    space: Namespace, operator: Operator, before: Version
) -> None:
    space.server.serve_crd(before.crds)
    leases = {"TFTRAINING_LEASE_NAMESPACE": space.name, "TFTRAINING_LEASE_SECONDS": "6"}
    run(operator, THIS, TFTRAINING_SHARDS="2", **leases)
    names = ["one", "two", "three"]
    for name in names:
        space.apply(manifest(name))
    chiefs = {f"{name}-chief-0" for name in names}
    eventually(lambda: chiefs <= space.pods().keys(), "the chiefs of all jobs")
    assert "is the CRD of another version" in operator.logged()

    space.server.serve_crd(THIS.crds)
    space.apply(manifest("four"))
    eventually(lambda: "four-chief-0" in space.pods(), "the chief of a job after the upgrade")


def newer_crd(folder: Path) -> Path:
    """Write the CRD of a later version: more fields with defaults, and more in the status."""
    (this,) = THIS.crds.iterdir()
    crd = yaml.safe_load(this.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    policy = schema["spec"]["properties"]["runPolicy"]["properties"]
    policy["futureSeconds"] = {"type": "integer", "default": 5}
    words = {"type": "object", "properties": {"word": {"type": "string"}}}
    schema["status"]["properties"]["futureField"] = words
    progress = schema["status"]["properties"]["progress"]["properties"]
    progress["futureExamples"] = {"type": "integer"}
    path = folder / this.name
    path.write_text(yaml.safe_dump(crd))
    return path
