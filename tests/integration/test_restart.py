"""The operator restarted, killed, absent, at rest; an API server of its own keeps counts exact."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver import PROGRAMS, ApiServer, running
from tests.conftest import ROOT, program_or_skip
from tests.integration.jobs import Namespace, manifest, writes
from tests.integration.process import Operator
from tools.waiting import eventually

ALL = ("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    with running(programs) as found:
        found.serve_crd(ROOT / "crds")
        yield found


@pytest.fixture
def alone(server: ApiServer, request: pytest.FixtureRequest) -> Namespace:
    name = f"alone-{abs(hash(request.node.name)) % 10**8}"
    made = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.ok, made.message
    return Namespace(server, name)


@pytest.fixture
def operator(server: ApiServer, alone: Namespace, tmp_path: Path) -> Iterator[Operator]:
    """An operator for the test's namespace alone, not started yet."""
    found = Operator(
        server.kubeconfig,
        tmp_path / "log",
        {"TFTRAINING_NAMESPACES": alone.name, "TFTRAINING_RESYNC_SECONDS": "1"},
    )
    yield found
    found.stop()


def trains(space: Namespace, operator: Operator) -> dict[str, str]:
    """Have a job that trains; return its pods' uids."""
    space.apply(manifest())
    operator.start()
    space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    return uids(space)


def uids(space: Namespace) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in space.pods().items()}


def at_rest(space: Namespace) -> str:
    """Return the job's resourceVersion after it has not changed for a moment."""
    seen: list[str] = []

    def still() -> bool:
        seen.append(space.job()["metadata"]["resourceVersion"])
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    eventually(still, "the job is at rest")
    return seen[-1]


def test_nothing_is_written_while_nothing_changes(alone: Namespace, operator: Operator) -> None:
    trains(alone, operator)
    version = at_rest(alone)
    before = writes(alone.server)
    listed = operator.logged().count("resync")

    # Several resyncs and progress polls go by; only the API server's own count is believed.
    eventually(lambda: _reads(alone.server) > 0, "the operator is alive")
    looks = iter(range(60))
    eventually(lambda: next(looks) >= 55, "three seconds pass")

    assert writes(alone.server) == before
    assert alone.job()["metadata"]["resourceVersion"] == version
    assert operator.logged().count("resync") == listed  # none has failed


def test_an_operator_that_is_restarted_creates_and_restarts_nothing(
    alone: Namespace, operator: Operator
) -> None:
    pods = trains(alone, operator)
    version = at_rest(alone)
    before = writes(alone.server)

    for number in (signal.SIGTERM, signal.SIGKILL):
        operator.stop(number)
        operator.start()
        at_rest(alone)

    assert uids(alone) == pods
    assert writes(alone.server) == before
    assert alone.job()["metadata"]["resourceVersion"] == version


def test_what_happened_while_the_operator_was_away_is_caught_up_with(
    alone: Namespace, operator: Operator
) -> None:
    trains(alone, operator)
    operator.stop(signal.SIGKILL)
    alone.end("mnist-chief-0", 75, "a parameter server was lost")
    alone.delete_pod("mnist-worker-0")
    operator.start()

    eventually(lambda: "mnist-worker-0" in alone.pods(), "the worker again")
    assert alone.status()["attempt"] == 1
    assert "mnist-chief-0" not in alone.pods(), "nobody knows that this one can wait by itself"
    alone.run("mnist-worker-0")
    eventually(lambda: alone.attempt("mnist-chief-0") == "1", "the second chief")
    alone.wait_for_pods(*ALL)
    assert alone.status()["restarts"] == 1


@pytest.mark.parametrize("killed_after", [1, 2, 3, 4, 5, 6])
def test_an_operator_killed_during_creation_ends_up_with_the_same_pods(
    alone: Namespace, operator: Operator, killed_after: int
) -> None:
    operator.start()
    alone.apply(manifest())
    # One service and four pods: the kill falls somewhere into their creation.
    eventually(
        lambda: len(alone.pods()) + len(alone.services()) >= min(killed_after, 5), "a first object"
    )
    operator.stop(signal.SIGKILL)
    made = uids(alone)
    operator.start()

    alone.wait_for_pods(*ALL)
    assert made.items() <= uids(alone).items()
    alone.wait_for("Accepted")
    assert alone.services() == ["mnist"]


def test_two_operators_at_once_do_no_harm(
    alone: Namespace, operator: Operator, server: ApiServer, tmp_path: Path
) -> None:
    second = Operator(server.kubeconfig, tmp_path / "second", operator.settings)
    operator.start()
    second.start()
    try:
        alone.apply(manifest(runPolicy={"backoffLimit": 2}))
        alone.wait_for_pods(*ALL)
        alone.run_all()
        alone.end("mnist-chief-0", 75, "lost")
        eventually(lambda: alone.status().get("attempt") == 1, "the second attempt")
        alone.wait_for_pods(*ALL)
        at_rest(alone)
    finally:
        second.stop()
    assert alone.status()["restarts"] == 1
    assert alone.status()["attempt"] == 1


def test_a_deletion_needs_no_operator(alone: Namespace, operator: Operator) -> None:
    trains(alone, operator)
    operator.stop()
    alone.kubectl("delete", "tftj", "mnist", "--timeout=10s")

    assert alone.job().get("code") == 404  # no finalizer holds it; its owner references do the rest
    for pod in alone.pods().values():
        assert pod["metadata"].get("finalizers") is None
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "TFTrainingJob"


def test_a_job_recreated_under_the_same_name_waits_for_the_old_pods_to_go(
    alone: Namespace, operator: Operator
) -> None:
    old = trains(alone, operator)
    alone.kubectl("delete", "tftj", "mnist", "--timeout=10s")
    alone.apply(manifest())
    alone.wait_for("Accepted")
    assert uids(alone) == old  # there is no garbage collector here: the old ones hold the names
    assert alone.status()["roles"][0]["active"] == 0  # and are not counted as its own

    alone.kubectl("delete", "service/mnist", "networkpolicy/mnist-isolation")
    for name in ALL:
        alone.delete_pod(name)
    eventually(lambda: set(uids(alone)) == set(ALL), "new pods")
    assert not set(uids(alone).values()) & set(old.values())


def test_a_name_that_is_taken_is_told_and_nothing_is_touched(
    alone: Namespace, operator: Operator
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mnist-ps-0"},
        "spec": {"containers": [{"name": "theirs", "image": "theirs"}]},
    }
    alone.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    theirs = uids(alone)["mnist-ps-0"]
    operator.start()
    alone.apply(manifest())

    accepted = alone.wait_for("Accepted", "False")
    assert accepted["reason"] == "NameConflict"
    assert "mnist-ps-0" in accepted["message"]
    assert uids(alone)["mnist-ps-0"] == theirs


def _reads(server: ApiServer) -> int:
    text = server.kubectl("get", "--raw", "/metrics")
    return sum(
        int(count)
        for count in re.findall(
            r'^apiserver_request_total\{.*resource="pods".*verb="(?:LIST|WATCH)".*\} (\d+)$',
            text,
            re.MULTILINE,
        )
    )
