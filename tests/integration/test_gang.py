"""Gangs on a real API server: with the real scheduler where it is Kubernetes' own, with the real
CRDs of the others, whose schedulers the test plays.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.apiserver import PROGRAMS, ApiServer, running, working
from tests.conftest import ROOT, program_or_skip
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.cluster.binaries import module_dir
from tools.cluster.shell import ClusterError
from tools.waiting import eventually, meanwhile

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path

_Object = dict[str, Any]

# A scheduler that has found no room tries again when something changes, after up to ten seconds.
pytestmark = pytest.mark.timeout(180)

NODES = ("node-1", "node-2")
CPUS = 5
"""Of each node. A job has three pods of 2 CPUs: 60 % of the cluster, which has room for four."""

IN_TREE = "podgroups.v1alpha2.scheduling.k8s.io"
COSCHEDULING = "podgroups.v1alpha1.scheduling.x-k8s.io"
VOLCANO = "podgroups.v1beta1.scheduling.volcano.sh"
MODULES = {
    COSCHEDULING: ("sigs.k8s.io/scheduler-plugins", "manifests/coscheduling/crd.yaml"),
    VOLCANO: (
        "volcano.sh/volcano",
        "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    ),
}


@pytest.fixture(scope="module")
def gang_server() -> Iterator[ApiServer]:
    """An API server with PodGroups, the controller that lets them go, nodes and our CRD."""
    gate = "--feature-gates=GenericWorkload=true"
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    manager = program_or_skip("kube-controller-manager")
    served = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
    with running(programs, gate, served) as server:
        server.serve_crd(ROOT / "crds")
        for name in NODES:
            _add_node(server, name)
        for index, role in enumerate(("worker", "chief", "ps")):
            server.apply(_priority(role, index + 1))
        with working(manager, server, "--controllers=podgroup-protection-controller", gate):
            yield server


@pytest.fixture(scope="module")
def operator(
    gang_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "log"
    found = Operator(gang_server.kubeconfig, log, {"TFTRAINING_GROUPS_SECONDS": "0.3"})
    found.start()
    yield found
    found.stop()


@pytest.fixture
def space(gang_server: ApiServer, operator: Operator) -> Iterator[Namespace]:
    """A namespace of the operator, in which deleted pods go as if their kubelets let them."""
    assert operator
    found = Namespace(gang_server, f"test-{secrets.token_hex(4)}")
    gang_server.kubectl("create", "namespace", found.name)
    with meanwhile(lambda end: _let_pods_go(found, end)):
        yield found
        found.kubectl("delete", "tftj,pods", "--all", "--wait=false")
        eventually(lambda: not found.pods(), "all pods are gone")


@pytest.fixture
def scheduler(gang_server: ApiServer) -> Path:
    """Kubernetes' scheduler, to be started when the test wants it."""
    assert gang_server
    return program_or_skip("kube-scheduler")


def a_job(name: str, gang: str, **scheduling: Any) -> _Object:
    """A job of three pods; all ps are tried before the chiefs, and these before the workers."""
    container = {"name": "tensorflow", "image": "any", "resources": {"requests": {"cpu": "2"}}}
    roles = {
        role: {"template": {"spec": {"priorityClassName": f"test-{role}"}}}
        for role in ("chief", "ps", "worker")
    }
    template = {"spec": {"containers": [container]}}
    return manifest(name, template=template, scheduling={"gang": gang, **scheduling}, **roles)


def bound(space: Namespace, job: str) -> int:
    """How many pods of a job have a node."""
    pods = [pod for name, pod in space.pods().items() if name.startswith(f"{job}-")]
    return sum("nodeName" in pod["spec"] for pod in pods)


def groups(space: Namespace, resource: str) -> dict[str, _Object]:
    plural, version, group = resource.split(".", 2)
    path = f"/apis/{group}/{version}/namespaces/{space.name}/{plural}"
    return {
        each["metadata"]["name"]: each for each in space.server.request("GET", path).body["items"]
    }


def message(space: Namespace, job: str) -> str:
    return str(space.status(job).get("message") or "")


def start(space: Namespace, gang: str) -> None:
    """Submit two jobs of 60 % each, and wait for all of their pods."""
    for name in ("red", "blue"):
        space.apply(a_job(name, gang))
    eventually(lambda: len(space.pods()) == 6, "all pods exist")


def test_without_gangs_two_jobs_take_each_others_nodes_and_both_wait(
    space: Namespace, scheduler: Path
) -> None:
    start(space, "None")
    with working(scheduler, space.server):
        eventually(lambda: bound(space, "red") + bound(space, "blue") == 4, "the cluster is full")
        for job in ("red", "blue"):
            eventually(lambda job=job: "Insufficient cpu" in message(space, job), f"{job} waits")
        assert (bound(space, "red"), bound(space, "blue")) == (2, 2)


def test_with_gangs_one_job_runs_and_the_other_has_no_node_until_it_has_ended(
    space: Namespace, scheduler: Path
) -> None:
    start(space, "InTree")
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
    with working(scheduler, space.server, gates):
        counts = eventually(
            lambda: found if max(found := (bound(space, "red"), bound(space, "blue"))) else None,
            "a job has nodes",
        )
        first, second = ("red", "blue") if counts[0] else ("blue", "red")
        eventually(lambda: bound(space, first) == 3, f"{first} has all of its nodes")
        eventually(lambda: space.status(second).get("state") == "Queued", f"{second} waits")
        waiting = space.status(second)
        since = waiting["gang"]["waitingSince"]
        assert waiting["message"].startswith(f"waiting since {since} for nodes for all 3 pods: ")
        eventually(lambda: "Insufficient cpu" in message(space, second), "what it lacks")
        assert bound(space, second) == 0

        names = [name for name in space.pods() if name.startswith(first)]
        space.run(*sorted(names, key=lambda name: "-chief-" in name))
        space.wait_for("Running", name=first)
        assert bound(space, second) == 0
        space.end(f"{first}-chief-0", 0)
        space.wait_for("Succeeded", name=first)
        eventually(lambda: bound(space, second) == 3, f"{second} has all of its nodes", 60)
        eventually(
            lambda: space.status(second)["gang"].get("scheduledTime"), f"{second} knows of it"
        )
        eventually(
            lambda: any(reason == "GangScheduled" for reason, _ in space.events()), "its event"
        )
        told = [reason for reason, _ in space.events()]
        assert told.index("Queued") < told.index("GangScheduled")
        eventually(lambda: len(groups(space, IN_TREE)) == 1, f"the group of {first} is gone")


def test_a_waiting_gang_follows_the_size_of_its_job(space: Namespace) -> None:
    space.apply(a_job("mnist", "InTree"))
    eventually(lambda: len(space.pods()) == 3, "all pods exist")
    (before,) = groups(space, IN_TREE)
    space.kubectl("scale", "tftj/mnist", "--replicas=2")

    def follows() -> bool:
        pods = space.pods().values()
        named = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}
        found = groups(space, IN_TREE)
        return len(pods) == 4 and named == set(found) and before not in found

    eventually(follows, "pods and group are made anew")
    (group,) = groups(space, IN_TREE).values()
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}

    space.kubectl(
        *("patch", "tftj", "mnist", "--type=merge"),
        *("-p", '{"spec": {"runPolicy": {"suspend": true}}}'),
    )
    eventually(lambda: not space.pods() and not groups(space, IN_TREE), "all is gone")


@pytest.mark.parametrize(
    ("gang", "resource", "scheduling", "spec"),
    [
        pytest.param(
            *("PodGroup", COSCHEDULING, {}),
            {"minMember": 3, "minResources": {"cpu": "6"}},
            id="coscheduling",
        ),
        pytest.param(
            *("Volcano", VOLCANO, {"queue": "research"}),
            {"minMember": 3, "minResources": {"cpu": "6"}, "queue": "research"},
            id="Volcano",
        ),
    ],
)
def test_another_scheduler_is_used_when_it_comes(
    request: pytest.FixtureRequest,
    space: Namespace,
    *,
    gang: str,
    resource: str,
    scheduling: _Object,
    spec: _Object,
) -> None:
    space.apply(a_job("mnist", gang, **scheduling))
    refused = space.wait_for("Accepted", "False")
    assert refused["reason"] == "SchedulerUnavailable"
    assert f"the cluster does not serve {resource}" in refused["message"]
    assert not space.pods()

    crd = _serve(space.server, resource)
    request.addfinalizer(lambda: space.server.kubectl("delete", "crd", crd))
    pods = space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0")
    ((name, group),) = groups(space, resource).items()
    assert group["spec"] == spec
    assert all(name in str(pod["metadata"]) for pod in pods.values())

    _say_no_room(space, resource, group)
    eventually(lambda: "no room at all" in message(space, "mnist"), "the job says why it waits")
    assert space.status()["state"] == "Queued"

    space.kubectl("delete", resource, name, "--wait=false")
    eventually(
        lambda: (
            (found := groups(space, resource).get(name)) is not None
            and found["metadata"]["uid"] != group["metadata"]["uid"]
        ),
        "the group is made again",
    )

    for pod in pods:
        _bind(space, pod)
    eventually(lambda: space.status()["gang"].get("scheduledTime"), "the gang has its nodes")
    space.run_all()
    space.end("mnist-chief-0", 0)
    space.wait_for("Succeeded")
    eventually(lambda: not groups(space, resource), "the group is gone")


def _serve(server: ApiServer, resource: str) -> str:
    module, path = MODULES[resource]
    try:
        folder = module_dir("schedulers", module)
    except ClusterError as error:
        pytest.skip(f"{module} is not available: {error}")
    return server.serve_crd(folder / path)


def _say_no_room(space: Namespace, resource: str, group: _Object) -> None:
    """Let a scheduler say that it finds no nodes, where it does."""
    if resource == COSCHEDULING:
        no_room = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        space.set_pod("mnist-ps-0", conditions=[{**no_room, "message": "no room at all"}])
        return
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "no room at all",
        "transitionID": "1",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    plural, version, api = resource.split(".", 2)
    path = f"/apis/{api}/{version}/namespaces/{space.name}/{plural}/{group['metadata']['name']}"
    status = {"status": {"phase": "Inqueue", "conditions": [condition]}}
    kind = "application/merge-patch+json"
    answer = space.server.request("PATCH", path, status, content_type=kind)  # no subresource
    assert answer.ok, answer.message


def _bind(space: Namespace, pod: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODES[0]},
    }
    path = f"/api/v1/namespaces/{space.name}/pods/{pod}/binding"
    answer = space.server.request("POST", path, binding)
    assert answer.ok, answer.message


def _add_node(server: ApiServer, name: str) -> None:
    """Add a node that is ready, as far as its status says; nobody runs on it."""
    server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    room = {"cpu": str(CPUS), "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    patches = {
        f"/api/v1/nodes/{name}/status": {
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]}
        },
        # Admission gives each new node the taint of one that is not ready.
        f"/api/v1/nodes/{name}": {"spec": {"taints": None}},
    }
    for path, patch in patches.items():
        answer = server.request("PATCH", path, patch, content_type="application/merge-patch+json")
        assert answer.ok, answer.message


def _priority(role: str, value: int) -> _Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"test-{role}"},
        "value": value,
        "preemptionPolicy": "Never",
    }


def _let_pods_go(space: Namespace, end: threading.Event) -> None:
    """Do what kubelets do with deleted pods: let them end."""
    while not end.wait(0.1):
        for name, pod in space.pods().items():
            if "deletionTimestamp" in pod["metadata"]:
                space.delete_pod(name)
