"""Operators of different releases: each job is worked on by one of them, whatever they watch."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tftraining_operator.api import crd

from tests.conftest import ROOT
from tests.integration.accounts import kubeconfig_of
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

    Install = Callable[..., "Release"]

pytestmark = pytest.mark.timeout(180)

LEADER_SECONDS = 3
CLAIM_SECONDS = 4 * LEADER_SECONDS
"""How long it takes until another release takes over from one that is gone."""
TASKS = ("chief-0", "ps-0", "worker-0", "worker-1")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"


@dataclass(frozen=True, slots=True)
class Release:
    """One installation: an operator with a lease and an image of its own."""

    namespace: str
    operator: Operator
    rights: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.namespace}/tftraining-operator"

    def jobs(self) -> int:
        """Read how many jobs it counts as its own."""
        return int(self.operator.metric("tftraining_jobs"))

    def writes(self) -> int:
        """Read how often it wrote anything but leases."""
        counter = "tftraining_operator_api_requests_total"
        kinds = ("tftrainingjobs/status", "pods", "services", "networkpolicies", "events")
        verbs = ("create", "update", "patch", "delete", "deletecollection")
        metric = self.operator.metric
        return int(sum(metric(counter, resource=k, verb=v) for k in kinds for v in verbs))


@pytest.fixture(scope="module")
def server(own_apiserver: ApiServer) -> ApiServer:
    """An API server on which an operator may watch everything."""
    own_apiserver.serve_crd(ROOT / "crds")
    return own_apiserver


@pytest.fixture
def install(server: ApiServer, tmp_path: Path) -> Iterator[Install]:
    """Start a release in a namespace of its own, for some namespaces or for all."""
    releases: list[Release] = []

    def start(*watched: Namespace, waits: bool = False) -> Release:
        home = _namespace(server, "release").name
        settings = {
            "TFTRAINING_NAMESPACES": ",".join(each.name for each in watched),
            "TFTRAINING_LEASE_NAMESPACE": home,
            "TFTRAINING_LEASE_SECONDS": str(LEADER_SECONDS),
            "TFTRAINING_TRAINER_IMAGE": home,
            # Two that act on one job would not agree on its NetworkPolicy.
            "TFTRAINING_POD_NAMESPACE": home,
        }
        release = Release(home, Operator(server.kubeconfig, tmp_path / f"{home}.log", settings))
        releases.append(release)
        release.operator.launch() if waits else release.operator.start()
        return release

    yield start
    for release in releases:
        release.operator.stop(signal.SIGKILL)


@pytest.fixture
def red(server: ApiServer) -> Iterator[Namespace]:
    with _emptied(_namespace(server, "red")) as space:
        yield space


@pytest.fixture
def blue(server: ApiServer) -> Iterator[Namespace]:
    with _emptied(_namespace(server, "blue")) as space:
        yield space


@contextmanager
def _emptied(space: Namespace) -> Iterator[Namespace]:
    """Delete the jobs at the end: whoever watches all would take them over in the next test."""
    yield space
    space.kubectl("delete", crd.NAME, "--all")


def _namespace(server: ApiServer, name: str) -> Namespace:
    name = f"{name}-{secrets.token_hex(3)}"
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return Namespace(server, name)


def names(*jobs: str) -> set[str]:
    return {f"{job}-{task}" for job in jobs for task in TASKS}


def makers(space: Namespace) -> dict[str, str]:
    """Read which release made each pod: the trainer image tells."""
    return {name: pod["spec"]["containers"][0]["image"] for name, pod in space.pods().items()}


def uids(space: Namespace) -> set[str]:
    return {pod["metadata"]["uid"] for pod in space.pods().values()}


def start(space: Namespace) -> None:
    """Let all pods run, the chiefs last: they are ready when they have reached every server."""
    space.run(*sorted(space.pods(), key=lambda name: "-chief-" in name))


def claimed_by(space: Namespace) -> str:
    """Read who works on the jobs of a namespace, '' for nobody."""
    lease = space.server.request("GET", LEASES.format(space.name, crd.NAME)).body
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def test_releases_with_namespaces_of_their_own_do_not_meet(
    install: Install, red: Namespace, blue: Namespace
) -> None:
    releases = {red: install(red), blue: install(blue)}
    for space in releases:
        space.apply(manifest("one"))
        space.apply(manifest("two"))
    for space, release in releases.items():
        space.wait_for_pods(*names("one", "two"))
        assert set(makers(space).values()) == {release.namespace}
        assert release.jobs() == 2
        assert claimed_by(space) == release.name


def test_of_two_that_name_a_namespace_the_second_is_not_ready_until_the_first_is_gone(
    install: Install, red: Namespace, blue: Namespace
) -> None:
    first = install(red)
    red.apply(manifest("before"))
    red.wait_for_pods(*names("before"))
    second = install(red, blue, waits=True)
    told = f"{first.name} works on the jobs of namespace {red.name}"
    eventually(lambda: told in second.operator.logged(), "the second says why it waits", 30)
    assert not second.operator.ready()
    assert second.operator.healthy(), "a restart would not help"

    # What is not in dispute is worked on.
    blue.apply(manifest("undisputed"))
    red.apply(manifest("after"))
    blue.wait_for_pods(*names("undisputed"))
    red.wait_for_pods(*names("before", "after"))
    assert set(makers(red).values()) == {first.namespace}
    assert (first.jobs(), second.jobs()) == (2, 1)
    written = second.writes()
    start(red)
    red.wait_for("Running", name="before")
    red.wait_for("Running", name="after")
    assert second.writes() == written, "it leaves the others alone"
    pods = uids(red)

    first.operator.stop(signal.SIGKILL)
    moment = time.monotonic()
    eventually(lambda: claimed_by(red) == second.name, "the second takes over", 3 * CLAIM_SECONDS)
    assert time.monotonic() - moment > CLAIM_SECONDS / 3, "the first had time to come back"
    eventually(second.operator.ready, "now it is ready")
    assert uids(red) == pods, "no pod was touched"
    red.delete_pod("before-worker-0")
    red.wait_for_pods(*names("before", "after"))
    assert second.jobs() == 3

    first.operator.launch()
    told = f"{second.name} works on the jobs of namespace {red.name}"
    eventually(lambda: told in first.operator.logged(), "now the first waits", 30)
    assert (first.jobs(), first.writes()) == (0, 0)


def test_who_watches_all_leaves_a_namespace_to_who_names_it_and_takes_it_back(
    install: Install, red: Namespace, blue: Namespace
) -> None:
    general = install()
    for space in (red, blue):
        space.apply(manifest("one"))
    for space in (red, blue):
        space.wait_for_pods(*names("one"))
        assert claimed_by(space) == general.name
        start(space)
    pods = uids(red)

    special = install(red)
    eventually(lambda: claimed_by(red) == special.name, "it hands over", 30)
    eventually(special.operator.ready, "the other is ready")
    written = general.writes()
    red.apply(manifest("two"))
    eventually(lambda: names("one", "two") == red.pods().keys(), "pods of a new job")
    assert {makers(red)[f"two-{task}"] for task in TASKS} == {special.namespace}
    assert {makers(red)[f"one-{task}"] for task in TASKS} == {general.namespace}
    assert pods <= uids(red), "no pod was touched"
    assert general.writes() == written
    assert (special.jobs(), general.jobs()) == (2, 1)
    assert general.operator.ready(), "it has work, and nothing is wrong"

    special.operator.stop()
    eventually(lambda: claimed_by(red) == general.name, "it takes back", 3 * CLAIM_SECONDS)
    red.delete_pod("one-worker-0")
    eventually(lambda: names("one", "two") == red.pods().keys(), "the worker is replaced")


def test_a_release_that_comes_back_within_the_time_of_its_claim_keeps_its_namespaces(
    install: Install, red: Namespace
) -> None:
    first = install(red)
    red.apply(manifest("one"))
    red.wait_for_pods(*names("one"))
    second = install(red, waits=True)
    eventually(lambda: first.name in second.operator.logged(), "the second waits", 30)
    first.operator.stop(signal.SIGKILL)
    first.operator.start()
    time.sleep(CLAIM_SECONDS)
    assert claimed_by(red) == first.name
    assert not second.operator.ready()
    assert second.jobs() == 0


@pytest.fixture
def by_chart(server: ApiServer, helm: Path, tmp_path: Path) -> Iterator[Install]:
    """Make a release as the guide installs it: the chart's Roles and settings, and no more."""
    found: list[Release] = []

    def make(name: str, *watched: Namespace) -> Release:
        spaces = ",".join(space.name for space in watched)
        values = (f"watchNamespaces={{{spaces}}}", "crds.enabled=false", "rbac.aggregate=false")
        home = f"{name}-system"
        command = [str(helm), "template", name, str(ROOT / "charts/tftraining-operator")]
        command += ["-n", home, "--no-hooks", *(f"--set={value}" for value in values)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        objects = [each for each in yaml.safe_load_all(text) if each]
        rights = [o for o in objects if o["kind"] in ("ServiceAccount", "Role", "RoleBinding")]
        assert not any(o["kind"].startswith("Cluster") for o in objects)
        server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}, *rights)
        (deployment,) = (o for o in objects if o["kind"] == "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        of_pod = {"metadata.name": name, "metadata.uid": name, "metadata.namespace": home}
        settings = {
            each["name"]: each["value"]
            if "value" in each
            else of_pod[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in pod["containers"][0]["env"]
        }
        settings |= {"TFTRAINING_LEASE_IDENTITY": name, "TFTRAINING_TRAINER_IMAGE": name}
        # The process of the tests has ports of its own.
        del settings["TFTRAINING_METRICS_PORT"]
        account = kubeconfig_of(server, home, pod["serviceAccountName"], tmp_path / name)
        found.append(Release(home, Operator(account, tmp_path / f"{name}.log", settings), rights))
        return found[-1]

    yield make
    for release in found:
        release.operator.stop(signal.SIGKILL)


def test_roles_in_its_namespaces_are_all_the_rights_that_a_release_needs(
    by_chart: Install, red: Namespace, blue: Namespace
) -> None:
    for name, space in (("vision", red), ("speech", blue)):
        operator = by_chart(name, space).operator
        operator.start()
        space.apply(manifest())
        space.wait_for_pods(*names("mnist"))
        assert set(makers(space).values()) == {name}
        assert claimed_by(space) == f"{name}-system/{name}-operator"
        space.run_all()
        space.wait_for("Running")
        space.end("mnist-chief-0", 0)
        space.wait_for("Succeeded")
        counter = "tftraining_operator_api_requests_total"
        # It looks for the schedulers and queues that the chart's values do not enable.
        sought = sum(
            operator.metric(counter, code="403", resource=r) for r in ("podgroups", "workloads")
        )
        assert operator.metric(counter, code="403") == sought
        assert "orbidden" not in operator.logged()


def test_a_namespace_that_has_lost_its_role_stops_no_other(
    by_chart: Install, server: ApiServer, red: Namespace, blue: Namespace
) -> None:
    """Kubernetes' own role admin may delete it; and the deletion of a namespace does."""
    green = _namespace(server, "green")
    release = by_chart("shared", red, blue, green)
    operator = release.operator
    operator.settings |= {"TFTRAINING_LEASE_SECONDS": "3", "TFTRAINING_GROUPS_SECONDS": "1"}

    def states(**expected: int) -> None:
        metric = "tftraining_operator_namespaces"
        for claim, count in expected.items():
            eventually(lambda: operator.metric(metric, claim=claim) == count, f"{claim}", 60)  # noqa: B023

    for space, kind in ((red, "rolebinding"), (green, "role")):
        space.kubectl("delete", kind, "--all")
    red.apply(manifest("early"))
    operator.start()
    blue.apply(manifest("one", network={"policy": "Isolated"}))
    blue.wait_for_pods(*names("one"))
    assert red.pods() == {}
    states(forbidden=2, held=1)
    for space in (red, green):
        assert operator.logged().count(f"cannot read namespace {space.name}") == 1

    server.apply(*release.rights)
    red.wait_for_pods(*names("early"))
    green.apply(manifest("late"))
    green.wait_for_pods(*names("late"))
    states(forbidden=0, held=3)
    assert "cannot claim" not in operator.logged()
    assert "upgrade its chart" not in operator.logged()

    red.kubectl("delete", "role", "--all")
    states(forbidden=1, held=2)
    blue.apply(manifest("two", network={"policy": "Isolated"}))
    blue.wait_for_pods(*names("one", "two"))
    red.delete_pod("early-worker-0")
    time.sleep(2)
    assert "early-worker-0" not in red.pods()
    server.apply(*release.rights)
    red.wait_for_pods(*names("early"))
    states(forbidden=0, held=3)
    assert operator.ready()
