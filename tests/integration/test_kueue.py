"""Jobs in queues of the real Kueue, on a real API server; only nodes and kubelets are played.

Each test has a ClusterQueue of its own with 6 CPUs: room for one job of three pods.
"""

from __future__ import annotations

import secrets
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.core.times import rfc3339

from tests.apiserver import PROGRAMS, running
from tests.conftest import ROOT, program_or_skip
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tests.kueue import PATH, Kueue, conditions, installed
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_Object = dict[str, Any]

pytestmark = pytest.mark.timeout(240)

CHIEF = "{}-chief-0"
PATIENCE = 60


@pytest.fixture(scope="module")
def kueue() -> Iterator[Kueue]:
    """An API server with our CRD and Kueue's, and Kueue."""
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    program = program_or_skip("kueue")
    with running(programs) as server:
        server.serve_crd(ROOT / "crds")
        yield installed(server, program)


@pytest.fixture(scope="module")
def operator(kueue: Kueue, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "log"
    found = Operator(kueue.server.kubeconfig, log, {"TFTRAINING_GROUPS_SECONDS": "0.5"})
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def works(kueue: Kueue) -> Iterator[None]:
    try:
        kueue.start()
        for name, value in (("low", 1), ("urgent", 100)):
            kueue.priority(name, value)
        yield
    finally:
        kueue.stop()


@pytest.fixture
def space(kueue: Kueue, operator: Operator, works: None) -> Iterator[Namespace]:
    """A namespace with a queue of the same name; pods without a node go at once when deleted."""
    assert operator
    assert works is None
    found = Namespace(kueue.server, f"test-{secrets.token_hex(4)}")
    kueue.server.kubectl("create", "namespace", found.name)
    kueue.queue(found.name, found.name)
    yield found
    found.kubectl("delete", "tftj,workloads.kueue.x-k8s.io", "--all", "--wait=false")


def a_job(space: Namespace, name: str, priority: str = "", queue: str = "", **spec: Any) -> _Object:
    """A job of three pods with 2 CPUs each, in a queue, else in that of its namespace."""
    container = {"name": "tensorflow", "image": "any", "resources": {"requests": {"cpu": "2"}}}
    found = manifest(
        name,
        template={"spec": {"containers": [container]}},
        **{"worker": {"replicas": 1}, **spec},
    )
    labels = {"kueue.x-k8s.io/queue-name": queue or space.name}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    found["metadata"]["labels"] = labels
    return found


def pods_of(space: Namespace, job: str) -> dict[str, _Object]:
    return {name: pod for name, pod in space.pods().items() if name.startswith(f"{job}-")}


def run_pending(space: Namespace, job: str) -> None:
    """Let the pods run that have come. One that is deleted just then runs no more."""
    pending = [
        name
        for name, pod in pods_of(space, job).items()
        if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]
    ]
    for name in sorted(pending, key=lambda name: "-chief-" in name):
        try:
            space.run(name)
        except AssertionError:
            assert name not in space.pods()


def run(space: Namespace, job: str) -> None:
    """Wait until a job is admitted, and let its pods run as they come, until it trains.

    A chief that resumes is not made before its servers are ready.
    """
    space.wait_for("Admitted", name=job, seconds=PATIENCE)

    def trains() -> bool:
        run_pending(space, job)
        return space.condition("Running", job).get("status") == "True"

    eventually(trains, f"{job} trains", PATIENCE)
    assert len(pods_of(space, job)) == 3


def trains_with(
    space: Namespace, job: str, workers: int, gone: Collection[str] = frozenset()
) -> None:
    """Let pods run as they come until a job trains with so many workers, and some pods are gone."""

    def found() -> bool:
        run_pending(space, job)
        return (
            space.status(job).get("clusterWorkers") == workers
            and space.condition("Running", job).get("status") == "True"
            and not set(gone) & set(pods_of(space, job))
        )

    eventually(found, f"{job} trains with {workers} workers: {space.status(job)}", PATIENCE)


def next_second(moment: str) -> None:
    eventually(lambda: rfc3339(datetime.now(UTC)) > moment, "the next second")


def uid(pod: _Object) -> str:
    return str(pod["metadata"]["uid"])


def waits(space: Namespace, job: str, *words: str) -> _Object:
    """Wait until a job is queued and says these words; return its status."""

    def found() -> _Object | None:
        status = space.status(job)
        said = str(status.get("message"))
        ready = status.get("state") == "Queued" and all(word in said for word in words)
        return status if ready else None

    return eventually(found, f"{job} waits and says {words}: {space.status(job)}", PATIENCE)


def told(space: Namespace, job: str) -> list[str]:
    """Read the reasons of a job's events in their order."""
    path = f"/apis/events.k8s.io/v1/namespaces/{space.name}/events"
    found = space.server.request("GET", path).body["items"]
    ours = [event for event in found if event["regarding"]["name"] == job]
    return [event["reason"] for event in sorted(ours, key=lambda event: event["eventTime"])]


def hold(space: Namespace, pod: str) -> None:
    """Let a pod that is deleted stay, as one does that still saves."""
    space.kubectl("patch", "pod", pod, "-p", '{"metadata": {"finalizers": ["example.com/saves"]}}')


def release(space: Namespace, pod: str) -> None:
    """Let a pod that was held go."""
    space.kubectl("patch", "pod", pod, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')


def queued(space: Namespace, job: str) -> _Object:
    return dict(space.status(job).get("queue") or {})


def test_two_jobs_run_in_turn_and_an_urgent_one_goes_before(kueue: Kueue, space: Namespace) -> None:
    space.apply(a_job(space, "red", "low"))
    run(space, "red")
    selector = {"example.com/pool": space.name}
    assert all(pod["spec"]["nodeSelector"] == selector for pod in pods_of(space, "red").values())
    eventually(
        lambda: conditions(kueue.workload(space.name, "red")).get("PodsReady") == "True",
        "Kueue knows that the pods are ready",
    )

    # Kueue queues by the second of creation, and those of one second in any order.
    next_second(kueue.workload(space.name, "red")["metadata"]["creationTimestamp"])
    space.apply(a_job(space, "blue", "low"))
    status = waits(space, "blue", f"in {space.name}: Kueue: ", "insufficient unused quota")
    assert status["message"].startswith(f"queued since {status['queue']['waitingSince']} in ")
    assert not pods_of(space, "blue")

    space.apply(a_job(space, "green", "urgent"))
    space.wait_for("Admitted", "False", name="red", seconds=PATIENCE)
    run(space, "green")
    assert not pods_of(space, "red")
    waits(space, "red", "Kueue: ")
    found = queued(space, "red")
    assert (found["evictions"], found["preemptions"]) == (1, 1)
    assert "accommodate" in found["lastEviction"]["message"]
    assert conditions(kueue.workload(space.name, "red"))["QuotaReserved"] == "False"

    space.end(CHIEF.format("green"), 0)
    space.wait_for("Succeeded", name="green")
    eventually(
        lambda: conditions(kueue.workload(space.name, "green")).get("Finished") == "True",
        "Kueue knows that green has finished",
    )
    # Red was queued first, and keeps its place.
    run(space, "red")
    assert not pods_of(space, "blue")
    status = space.status("red")
    assert (status["attempt"], status["restarts"]) == (1, 0)
    place = ("Queued", "Admitted", "Preempted")
    ours = [reason for reason in told(space, "red") if reason in place]
    assert ours == ["Queued", "Admitted", "Preempted", "Queued", "Admitted"]

    space.end(CHIEF.format("red"), 0)
    space.wait_for("Succeeded", name="red")
    run(space, "blue")
    assert queued(space, "blue")["waitSeconds"] > 0


def test_borrowed_quota_goes_back_to_its_owner_and_the_borrower_resumes(
    kueue: Kueue, space: Namespace
) -> None:
    cohort, owner = f"{space.name}-cohort", f"{space.name}-owner"
    kueue.set_quota(space.name, "2")
    kueue.change(space.name, cohortName=cohort)
    kueue.queue(
        *(owner, space.name),
        pool=space.name,
        cohortName=cohort,
        preemption={"reclaimWithinCohort": "Any"},
    )
    space.apply(a_job(space, "red"))
    run(space, "red")

    hold(space, CHIEF.format("red"))
    space.apply(a_job(space, "blue", queue=owner))
    found = space.wait_for("Admitted", "False", name="red", seconds=PATIENCE)
    assert found["reason"] == "Preempted"
    eventually(
        lambda: "deletionTimestamp" in space.pods()[CHIEF.format("red")]["metadata"],
        "its chief is told to save",
    )
    others = [pod for name, pod in space.pods().items() if "-chief-" not in name]
    assert len(others) == 2
    assert not any("deletionTimestamp" in pod["metadata"] for pod in others), "it saves to its ps"
    waits(space, "blue", "Pending the preemption of 1 workload(s)")

    release(space, CHIEF.format("red"))
    run(space, "blue")
    assert not pods_of(space, "red")
    status = waits(space, "red", f"in {space.name}: Kueue: ")
    found = status["queue"]
    assert (found["evictions"], found["preemptions"]) == (1, 1)
    assert "due to reclamation within the cohort" in found["lastEviction"]["message"]

    space.end(CHIEF.format("blue"), 0)
    space.wait_for("Succeeded", name="blue")
    run(space, "red")
    status = space.status("red")
    assert (status["attempt"], status["restarts"]) == (1, 0)
    assert status["queue"]["waitSeconds"] >= found["waitSeconds"]
    place = ("Queued", "Admitted", "Preempted", "Failed", "Restarting")
    ours = [reason for reason in told(space, "red") if reason in place]
    assert ours == ["Queued", "Admitted", "Preempted", "Queued", "Admitted"]


def test_a_closed_queue_and_a_small_quota_are_named_and_pass(
    kueue: Kueue, space: Namespace
) -> None:
    kueue.set_quota(space.name, "5")
    space.apply(a_job(space, "red"))
    waits(space, "red", "insufficient quota")
    kueue.set_quota(space.name, "6")
    run(space, "red")

    kueue.change(space.name, stopPolicy="HoldAndDrain")
    found = space.wait_for("Admitted", "False", name="red", seconds=PATIENCE)
    assert found["reason"] == "ClusterQueueStopped"
    eventually(lambda: not space.pods(), "its pods are stopped")
    space.apply(a_job(space, "blue"))
    waits(space, "blue", "is inactive")
    assert space.condition("Admitted", "blue")["reason"] == "Inadmissible"
    found = queued(space, "red")
    assert (found["evictions"], found.get("preemptions", 0)) == (1, 0)

    # Kueue may admit either first.
    space.kubectl("delete", "tftj", "blue", "--wait=false")
    name = kueue.workload(space.name, "blue")["metadata"]["name"]
    space.kubectl("delete", "workloads.kueue.x-k8s.io", name, "--wait=false")
    kueue.change(space.name, stopPolicy="None")
    run(space, "red")


def test_a_workload_that_is_deleted_or_stopped_by_hand_comes_back(
    kueue: Kueue, space: Namespace
) -> None:
    space.apply(a_job(space, "red"))
    run(space, "red")
    name = kueue.workload(space.name, "red")["metadata"]["name"]
    space.kubectl("delete", "workloads.kueue.x-k8s.io", name, "--wait=false")
    eventually(
        lambda: (queued(space, "red").get("lastEviction") or {}).get("reason") == "WorkloadDeleted",
        "the job says what happened",
    )
    run(space, "red")
    status = space.status("red")
    assert (status["attempt"], status["restarts"]) == (1, 0)

    kueue.set_active(space.name, name, active=False)
    waits(space, "red", f"set spec.active of Workload {name} to true")
    eventually(lambda: not space.pods(), "its pods are stopped")
    kueue.set_active(space.name, name, active=True)
    run(space, "red")

    space.kubectl(
        *("patch", "tftj", "red", "--type=merge"),
        *("-p", '{"spec": {"runPolicy": {"suspend": true}}}'),
    )
    eventually(
        lambda: not space.pods() and not kueue.workload(space.name, "red"),
        "a suspended job has neither pods nor quota",
    )


def test_a_workload_from_which_somebody_takes_our_label_stays_the_jobs(
    kueue: Kueue, space: Namespace
) -> None:
    space.apply(a_job(space, "red"))
    run(space, "red")
    before = {name: pod["metadata"]["uid"] for name, pod in pods_of(space, "red").items()}
    name = kueue.workload(space.name, "red")["metadata"]["name"]
    space.kubectl("label", "workloads.kueue.x-k8s.io", name, "tftraining.dev/job-")
    moments = iter(range(60))
    eventually(lambda: next(moments) >= 55, "three seconds pass")
    after = {name: pod["metadata"]["uid"] for name, pod in pods_of(space, "red").items()}
    assert after == before
    assert queued(space, "red").get("evictions", 0) == 0
    kueue.set_active(space.name, name, active=False)
    waits(space, "red", f"set spec.active of Workload {name} to true")
    eventually(lambda: not space.pods(), "what Kueue says of it is still heard")


def test_a_drained_job_that_finds_no_room_returns_to_its_queue(
    kueue: Kueue, space: Namespace
) -> None:
    waiting = {"timeout": "10m", "recoveryTimeout": "3s", "blockAdmission": False}
    waiting["requeuingStrategy"] = {"backoffBaseSeconds": 5}
    with kueue.configured(waitForPodsReady=waiting):
        space.apply(a_job(space, "red"))
        run(space, "red")
        eventually(
            lambda: conditions(kueue.workload(space.name, "red")).get("PodsReady") == "True",
            "Kueue knows that the pods are ready",
        )
        space.apply(a_job(space, "blue"))
        waits(space, "blue", "insufficient unused quota")

        for name in pods_of(space, "red"):
            answer = space.evict(name)
            assert answer.ok, answer.message
        found = space.wait_for("Admitted", "False", name="red", seconds=PATIENCE)
        assert found["reason"] == "PodsReadyTimeout"
        run(space, "blue")
        assert not pods_of(space, "red"), "what waited for a node is gone"
        place = queued(space, "red")
        assert (place["evictions"], place.get("preemptions", 0)) == (1, 0)
        assert place["lastEviction"]["reason"] == "PodsReadyTimeout"

        space.end(CHIEF.format("blue"), 0)
        space.wait_for("Succeeded", name="blue")
        run(space, "red")
        assert space.status("red")["restarts"] == 0


def test_an_operator_that_is_killed_while_a_job_is_preempted_ends_it_right(
    kueue: Kueue, space: Namespace, operator: Operator
) -> None:
    space.apply(a_job(space, "red", "low"))
    run(space, "red")
    operator.stop(signal.SIGKILL)
    try:
        kueue.change(space.name, stopPolicy="HoldAndDrain")
        eventually(
            lambda: conditions(kueue.workload(space.name, "red")).get("Evicted") == "True",
            "Kueue has evicted it",
        )
        assert len(space.pods()) == 3, "nobody else stops them"
    finally:
        operator.start()
    waits(space, "red", "Kueue: ")
    eventually(lambda: not space.pods(), "its pods are stopped")
    kueue.change(space.name, stopPolicy="None")
    run(space, "red")
    assert queued(space, "red")["evictions"] == 1


def test_a_job_begins_with_few_workers_grows_with_the_room_and_is_preempted_in_part(
    kueue: Kueue, space: Namespace
) -> None:
    kueue.set_quota(space.name, "8")
    space.apply(a_job(space, "red", "low", worker={"replicas": 4, "minReplicas": 2}))
    admitted = space.wait_for("Admitted", name="red", seconds=PATIENCE)
    assert "with 2 of 4 workers" in admitted["message"]
    few = ["red-ps-0", "red-worker-0", "red-worker-1", "red-chief-0"]
    eventually(lambda: set(space.pods()) == set(few), "as many pods as have quota", PATIENCE)
    space.run(*few)
    space.wait_for("Running", name="red")
    eventually(
        lambda: "insufficient unused quota" in space.condition("Admitted", "red")["message"],
        "it says what the others wait for",
        PATIENCE,
    )
    before = space.pods()

    # Of one priority, Kueue preempts first what it admitted last, to the second.
    next_second(before[few[0]]["metadata"]["creationTimestamp"])
    kueue.set_quota(space.name, "14")
    trains_with(space, "red", 4)
    after = space.pods()
    made_again = [name for name in few if uid(before[name]) != uid(after[name])]
    assert made_again == [CHIEF.format("red")]

    hold(space, "red-worker-3")
    space.apply(a_job(space, "blue", "urgent"))
    eventually(lambda: told(space, "red").count("Preempted") == 1, "it is told", PATIENCE)
    trains_with(space, "red", 2, gone={"red-worker-2"})
    waits(space, "blue", "Pending the preemption of 1 workload(s)")
    release(space, "red-worker-3")
    run(space, "blue")
    status = space.status("red")
    assert (status["queue"]["workers"], status["queue"].get("evictions", 0)) == (2, 0)
    assert status["queue"]["lastEviction"]["reason"] == "Preempted"
    assert (status["state"], status["restarts"], status["attempt"]) == ("Running", 0, 2)

    space.end(CHIEF.format("blue"), 0)
    space.wait_for("Succeeded", name="blue")
    eventually(lambda: "red-worker-3" in space.pods(), "it has its workers again", PATIENCE)
    space.kubectl("scale", "tftj/red", "--replicas=2")
    trains_with(space, "red", 2, gone={"red-worker-2", "red-worker-3"})
    listed = f"{PATH}/namespaces/{space.name}/workloads"
    selector = {"labelSelector": "tftraining.dev/extension"}
    eventually(
        lambda: not space.server.request("GET", listed, query=selector).body["items"],
        "their quota is given back",
    )
    assert "Queued" not in told(space, "red")[1:]


def test_a_job_runs_on_while_kueue_is_away(kueue: Kueue, space: Namespace) -> None:
    space.apply(a_job(space, "red"))
    run(space, "red")
    kueue.stop()
    try:
        space.end("red-worker-0", 1)
        eventually(
            lambda: (
                space.pods().get("red-worker-0", {}).get("status", {}).get("phase") == "Pending"
            ),
            "its worker is replaced",
            PATIENCE,
        )
        space.apply(a_job(space, "blue"))
        waits(space, "blue", "could not be written")
        assert space.condition("Running", "red")["status"] == "True"
    finally:
        kueue.start()
    space.run("red-worker-0")
    waits(space, "blue", "insufficient unused quota")
    assert queued(space, "red").get("evictions", 0) == 0
