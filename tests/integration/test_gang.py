"""Gangs on a real API server, placed by the real schedulers of Kubernetes, scheduler-plugins and
Volcano; only nodes and kubelets are played.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.apiserver import PROGRAMS, ApiServer, running, working
from tests.conftest import ROOT, program_or_skip
from tests.integration.gangs import (
    COSCHEDULING,
    GATE,
    IN_TREE,
    IN_TREE_FLAGS,
    IN_TREE_VERSION,
    NODES,
    SCHEDULER_GATES,
    VOLCANO,
    a_job,
    add_node,
    bound,
    coscheduling,
    first_and_second,
    gangs,
    groups,
    let_pods_go,
    message,
    needs_in_tree,
    priority,
    remade,
    serve_groups,
    suspend,
    train,
)
from tests.integration.jobs import Namespace
from tests.integration.process import Operator
from tests.volcano import queue, volcano
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
    with ExitStack() as stack:
        server = stack.enter_context(running(programs, *IN_TREE_FLAGS))
        server.serve_crd(ROOT / "crds")
        for name in NODES:
            add_node(server, name)
        for index, role in enumerate(("worker", "chief", "ps")):
            server.apply(priority(role, index + 1))
        if IN_TREE_VERSION:
            flags = ("--controllers=podgroup-protection-controller", GATE)
            stack.enter_context(working(manager, server, *flags))
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


def start_too_early(space: Namespace, gang: str, resource: str) -> None:
    """Submit two jobs for a scheduler that is not there yet: both say so, and have no pods."""
    for name in ("red", "blue"):
        space.apply(a_job(name, gang))
    for name in ("red", "blue"):
        refused = space.wait_for("Accepted", "False", name=name)
        assert refused["reason"] == "SchedulerUnavailable"
        assert f"the cluster does not serve {resource}" in refused["message"]
    assert not space.pods()


def test_without_gangs_two_jobs_take_each_others_nodes_and_both_wait(
    space: Namespace, scheduler: Path
) -> None:
    start(space, "None")
    with working(scheduler, space.server):
        eventually(lambda: bound(space, "red") + bound(space, "blue") == 4, "the cluster is full")
        for job in ("red", "blue"):
            eventually(lambda job=job: "Insufficient cpu" in message(space, job), f"{job} waits")
        assert (bound(space, "red"), bound(space, "blue")) == (2, 2)


@needs_in_tree
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


@needs_in_tree
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


def members(space: Namespace, resource: str) -> dict[str, int]:
    """The sizes of all gangs, by job."""
    found = gangs(space, resource).values()
    return {
        each["metadata"]["labels"]["tftraining.dev/job"]: each["spec"]["minMember"]
        for each in found
    }


def test_coscheduling_places_a_job_whole_and_the_next_one_when_it_has_ended(
    request: pytest.FixtureRequest, space: Namespace
) -> None:
    program = program_or_skip("coscheduling")
    start_too_early(space, "PodGroup", COSCHEDULING)
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
        it_grows_and_has_its_turn(space, COSCHEDULING, first, second, "4 more cpu needed")


def it_grows_and_has_its_turn(
    space: Namespace, resource: str, first: str, second: str, lacks: str
) -> None:
    """Take a waiting job's group away and scale the job; end the one that runs, then this one."""
    since = space.status(second)["gang"]["waitingSince"]
    remade(space, resource, space.status(second)["gang"]["group"])
    space.kubectl("scale", f"tftj/{second}", "--replicas=2")
    sizes = {first: 3, second: 4}
    eventually(lambda: members(space, resource) == sizes, f"the gang of {second} is larger")
    again = f"waiting since {since} for nodes for all 4 pods: "
    eventually(lambda: message(space, second).startswith(again), "what it waits for now")
    eventually(lambda: lacks in message(space, second), "what it lacks now")
    assert bound(space, second) == 0

    space.end(f"{first}-chief-0", 0)
    space.wait_for("Succeeded", name=first)
    eventually(lambda: bound(space, second) == 4, f"{second} has all of its nodes", 60)
    eventually(lambda: set(members(space, resource)) == {second}, f"the group of {first} is gone")
    suspend(space, second)
    eventually(lambda: not groups(space, resource), f"the group of {second} is gone")


def test_volcano_places_a_job_whole_and_the_next_one_when_it_has_ended(
    space: Namespace, helm: Path
) -> None:
    start_too_early(space, "Volcano", VOLCANO)
    with volcano(space.server, helm):
        # What Volcano's webhooks refused at first is tried again after 30 s.
        eventually(lambda: len(space.pods()) == 6, "all pods exist", 60)
        specs = [group["spec"] for group in gangs(space, VOLCANO).values()]
        spec = {"minMember": 3, "minResources": {"cpu": "6"}, "queue": "default"}
        assert specs == [{**spec, "priorityClassName": "test-chief"}] * 2
        first, second = first_and_second(space)
        lacks = "Volcano's queue default has not admitted it: {}/{} tasks in gang unschedulable"
        eventually(lambda: lacks.format(3, 3) in message(space, second), "what it waits for")
        train(space, first)
        it_places_a_worker_that_is_made_again(space, first)
        it_grows_and_has_its_turn(space, VOLCANO, first, second, lacks.format(4, 4))
        it_says_what_keeps_a_queue_from_taking_a_job(space)


def it_places_a_worker_that_is_made_again(space: Namespace, job: str) -> None:
    """Let a worker fail while the queue has promised its room to the next job."""
    worker = f"{job}-worker-0"
    before = space.pods()[worker]["metadata"]["uid"]
    space.end(worker, 1)

    def has_come() -> bool:
        found = space.pods().get(worker, {})
        return bool(found) and found["metadata"]["uid"] != before and "nodeName" in found["spec"]

    eventually(has_come, f"{worker} is made again, and has a node", 60)


def it_says_what_keeps_a_queue_from_taking_a_job(space: Namespace) -> None:
    """Ask for a queue that does not exist, and make it."""
    space.apply(a_job("green", "Volcano", queue="research"))
    told = "unable to find job queue"
    eventually(lambda: told in message(space, "green"), "why it has no pods")
    assert space.status("green")["state"] == "Refused"
    queue(space.server, "research")
    eventually(lambda: bound(space, "green") == 3, "green has all of its nodes", 60)
