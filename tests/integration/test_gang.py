"""Gangs on a real API server: with the real schedulers of Kubernetes and of scheduler-plugins, and
with the real CRD of Volcano, whose scheduler the test plays.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.apiserver import PROGRAMS, ApiServer, running, working
from tests.conftest import ROOT, program_or_skip
from tests.integration.gangs import (
    COSCHEDULING,
    GATE,
    IN_TREE,
    IN_TREE_FLAGS,
    NODES,
    SCHEDULER_GATES,
    VOLCANO,
    a_job,
    add_node,
    bound,
    coscheduling,
    first_and_second,
    groups,
    let_pods_go,
    message,
    priority,
    remade,
    serve_groups,
    suspend,
    train,
)
from tests.integration.jobs import Namespace
from tests.integration.process import Operator
from tools.waiting import eventually, meanwhile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_Object = dict[str, Any]

# A scheduler that has found no room tries again when something changes, after up to ten seconds.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def gang_server() -> Iterator[ApiServer]:
    """An API server with PodGroups, the controller that lets them go, nodes and our CRD."""
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    manager = program_or_skip("kube-controller-manager")
    with running(programs, *IN_TREE_FLAGS) as server:
        server.serve_crd(ROOT / "crds")
        for name in NODES:
            add_node(server, name)
        for index, role in enumerate(("worker", "chief", "ps")):
            server.apply(priority(role, index + 1))
        with working(manager, server, "--controllers=podgroup-protection-controller", GATE):
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
    with meanwhile(lambda end: let_pods_go(found, end)):
        yield found
        found.kubectl("delete", "tftj,pods", "--all", "--wait=false")
        eventually(lambda: not found.pods(), "all pods are gone")


@pytest.fixture
def scheduler(gang_server: ApiServer) -> Path:
    """Kubernetes' scheduler, to be started when the test wants it."""
    assert gang_server
    return program_or_skip("kube-scheduler")


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
    with working(scheduler, space.server, SCHEDULER_GATES):
        first, second = first_and_second(space)
        eventually(lambda: space.status(second).get("state") == "Queued", f"{second} waits")
        waiting = space.status(second)
        since = waiting["gang"]["waitingSince"]
        assert waiting["message"].startswith(f"waiting since {since} for nodes for all 3 pods: ")
        eventually(lambda: "Insufficient cpu" in message(space, second), "what it lacks")
        assert bound(space, second) == 0

        train(space, first)
        assert bound(space, second) == 0
        # It stays until its pods have gone, and counts until then.
        space.kubectl("delete", IN_TREE, waiting["gang"]["group"], "--wait=false")
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

    suspend(space, "mnist")
    eventually(lambda: not space.pods() and not groups(space, IN_TREE), "all is gone")


def sizes(space: Namespace) -> list[int]:
    """The sizes of all gangs of coscheduling."""
    return sorted(group["spec"]["minMember"] for group in groups(space, COSCHEDULING).values())


def test_coscheduling_places_a_job_whole_and_the_next_one_when_it_has_ended(
    request: pytest.FixtureRequest, space: Namespace
) -> None:
    program = program_or_skip("coscheduling")
    for name in ("red", "blue"):
        space.apply(a_job(name, "PodGroup"))
    for name in ("red", "blue"):
        refused = space.wait_for("Accepted", "False", name=name)
        assert refused["reason"] == "SchedulerUnavailable"
        assert f"the cluster does not serve {COSCHEDULING}" in refused["message"]
    assert not space.pods()

    crd = serve_groups(space.server, COSCHEDULING)
    request.addfinalizer(lambda: space.server.kubectl("delete", "crd", crd))
    eventually(lambda: len(space.pods()) == 6, "all pods exist")
    specs = [group["spec"] for group in groups(space, COSCHEDULING).values()]
    assert specs == [{"minMember": 3, "minResources": {"cpu": "6"}}] * 2
    with coscheduling(program, space.server):
        first, second = first_and_second(space)
        eventually(lambda: "2 more cpu needed" in message(space, second), "what it lacks")
        waiting = space.condition("PodsReady", second)
        since = space.status(second)["gang"]["waitingSince"]
        assert (waiting["status"], waiting["reason"]) == ("False", "Queued")
        assert waiting["message"].startswith(f"waiting since {since} for nodes for all 3 pods: ")
        train(space, first)
        remade(space, COSCHEDULING, space.status(second)["gang"]["group"])

        space.kubectl("scale", f"tftj/{second}", "--replicas=2")
        eventually(lambda: sizes(space) == [3, 4], f"the gang of {second} is larger")
        again = f"waiting since {since} for nodes for all 4 pods: "
        eventually(lambda: message(space, second).startswith(again), "what it waits for now")
        eventually(lambda: "4 more cpu needed" in message(space, second), "what it lacks now")
        assert bound(space, second) == 0

        space.end(f"{first}-chief-0", 0)
        space.wait_for("Succeeded", name=first)
        eventually(lambda: bound(space, second) == 4, f"{second} has all of its nodes", 60)
        eventually(lambda: len(groups(space, COSCHEDULING)) == 1, f"the group of {first} is gone")
        suspend(space, second)
        eventually(lambda: not groups(space, COSCHEDULING), f"the group of {second} is gone")


def test_volcano_is_used_when_its_api_comes(
    request: pytest.FixtureRequest, space: Namespace
) -> None:
    space.apply(a_job("mnist", "Volcano", queue="research"))
    refused = space.wait_for("Accepted", "False")
    assert refused["reason"] == "SchedulerUnavailable"
    assert f"the cluster does not serve {VOLCANO}" in refused["message"]
    assert not space.pods()

    crd = serve_groups(space.server, VOLCANO)
    request.addfinalizer(lambda: space.server.kubectl("delete", "crd", crd))
    pods = space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0")
    ((name, group),) = groups(space, VOLCANO).items()
    assert group["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "6"},
        "queue": "research",
        "priorityClassName": "test-chief",
    }
    for pod in pods.values():
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == name
        assert pod["spec"]["schedulerName"] == "volcano"

    _say_no_room(space, name)
    eventually(lambda: "no room at all" in message(space, "mnist"), "the job says why it waits")
    assert space.status()["state"] == "Queued"
    remade(space, VOLCANO, name)

    for pod in pods:
        _bind(space, pod)
    eventually(lambda: space.status()["gang"].get("scheduledTime"), "the gang has its nodes")
    space.run_all()
    space.end("mnist-chief-0", 0)
    space.wait_for("Succeeded")
    eventually(lambda: not groups(space, VOLCANO), "the group is gone")


def _say_no_room(space: Namespace, group: str) -> None:
    """Let Volcano say of a group that it finds no nodes."""
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "no room at all",
        "transitionID": "1",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    plural, version, api = VOLCANO.split(".", 2)
    path = f"/apis/{api}/{version}/namespaces/{space.name}/{plural}/{group}"
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
