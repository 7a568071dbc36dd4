"""Waiting for peers over real sockets, and watching them."""

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from harness import until
from tftrainer.config.cluster import Cluster, Member, Role, Task
from tftrainer.errors import PeersUnavailableError, TerminatedError
from tftrainer.peering import connections, peers
from tftrainer.peering.peer_watch import PeerWatch
from tftrainer.peering.peers import Failure
from tftrainer.runtime.progress import Cause, Progress, Snapshot, Unreachable
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.watchdog import Watchdog

from tools.ports import free_port

NO_ANSWER = Failure(Cause.TIMED_OUT, "no answer")


@pytest.fixture
def run() -> Run:
    watchdog = Watchdog(stall_seconds=1, first_step_seconds=1)
    return Run(Progress(Snapshot(role=Role.CHIEF)), watchdog)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def status_port() -> Iterator[int]:
    """Port of a gRPC server whose worker service answers."""
    answer = grpc.unary_unary_rpc_method_handler(lambda *_: b"")
    service = grpc.method_handlers_generic_handler(
        "tensorflow.WorkerService", {"GetStatus": answer}
    )
    server = grpc.server(ThreadPoolExecutor(max_workers=1), handlers=[service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None).wait()


def member(address: str, index: int = 0) -> Member:
    return Member(Task(Role.WORKER, index), address)


def watched(run: Run, *members: Member, probe: peers.Probe = peers.connect) -> PeerWatch:
    watch = PeerWatch(members, run.progress, probe)
    watch.start()
    return watch


def test_a_listener_connects_and_a_closed_port_refuses(listener: socket.socket) -> None:
    assert peers.connect(member(f"127.0.0.1:{listener.getsockname()[1]}")) is None
    refused = peers.connect(member(f"127.0.0.1:{free_port()}"))
    assert refused == Failure(Cause.REFUSED, "connection refused")


def test_an_unknown_name_is_not_resolved() -> None:
    failure = peers.connect(member("nobody.invalid:2222"))
    assert failure == Failure(Cause.NOT_RESOLVED, "its name does not resolve")


def test_a_full_backlog_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        held = [socket.socket() for _ in range(4)]
        for each in held:
            each.settimeout(0)
            each.connect_ex(address)
        failure = peers.connect(member(f"127.0.0.1:{address[1]}"))
        for each in held:
            each.close()

    assert failure == Failure(Cause.TIMED_OUT, "connection timed out")


def test_a_process_that_listens_but_hangs_times_out(listener: socket.socket) -> None:
    failure = peers.StatusProbe()(member(f"127.0.0.1:{listener.getsockname()[1]}"))

    assert failure is not None
    assert failure.cause is Cause.TIMED_OUT
    assert "does not answer" in failure.reason
    assert failure.address == "127.0.0.1"


def test_a_refusal_names_the_address_that_the_name_has() -> None:
    failure = peers.StatusProbe()(member(f"localhost:{free_port()}"))

    assert failure is not None
    assert failure.cause is Cause.REFUSED
    assert failure.address in ("127.0.0.1", "::1")


def test_a_ps_is_located_where_it_answered_whatever_its_name_says_later(
    status_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an outage of the API server, when one of two name servers is behind."""
    ip = ["127.0.0.1"]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ip[0], status_port))],
    )
    chief = Member(Task(Role.CHIEF, 0), "mnist-chief-0.mnist:2222")
    worker = member(f"mnist-worker-0.mnist:{status_port}")
    ps = Member(Task(Role.PS, 0), f"mnist-ps-0.mnist:{status_port}")
    probe = peers.StatusProbe()

    assert [probe(each) for each in (worker, ps)] == [None, None]
    ip[0] = "127.0.0.2"
    found = Cluster(chief.task, (chief, worker, ps)).located(Role.PS, probe.where_it_answered)

    assert found.addresses() == {
        "chief": [chief.address],
        "worker": [worker.address],
        "ps": [f"127.0.0.1:{status_port}"],
    }


@pytest.mark.parametrize(
    ("peer", "own"),
    [
        pytest.param("127.0.0.1:2222", "127.0.0.1:2000", id="IPv4"),
        pytest.param("[::1]:2222", "[::1]:2000", id="IPv6"),
        pytest.param("nowhere.invalid:2222", "mnist-chief-0.mnist:2000", id="an unknown name"),
    ],
)
def test_a_process_is_where_it_reaches_a_peer_from(peer: str, own: str) -> None:
    chief = Member(Task(Role.CHIEF, 0), "mnist-chief-0.mnist:2000")

    assert peers.facing(chief, member(peer)) == Member(chief.task, own)


def test_seconds_begin_again_at_another_address(run: Run) -> None:
    answers = [Failure(Cause.REFUSED, "refused", "198.18.0.1")]
    watch = watched(run, member("a:1"), probe=lambda _: answers[-1])
    until(lambda: run.progress.snapshot.unreachable, "it is missed", patience=5)
    moved_at = time.monotonic()
    answers.append(Failure(Cause.REFUSED, "refused", "198.18.0.2"))
    (entry,) = until(
        lambda: [e for e in run.progress.snapshot.unreachable if e.address == "198.18.0.2"],
        "it is missed at its new address",
        patience=5,
    )

    assert entry.since is not None
    assert entry.since >= moved_at
    watch.stop()


def test_those_missing_are_named_when_time_is_up(run: Run, listener: socket.socket) -> None:
    there = member(f"127.0.0.1:{listener.getsockname()[1]}", 0)
    absent = member(f"127.0.0.1:{free_port()}", 1)
    watch = watched(run, there, absent)

    with pytest.raises(PeersUnavailableError, match=r"worker-1 \(connection refused\)"):
        watch.wait(run, timeout=0.5)
    assert run.progress.snapshot.waiting_for == ["worker-1"]
    watch.stop()


def test_nobody_is_given_up_who_was_not_asked(run: Run) -> None:
    def probe(_: Member) -> Failure:
        time.sleep(0.5)
        return NO_ANSWER

    watch = watched(run, member("a:1"), probe=probe)
    with pytest.raises(PeersUnavailableError, match=r"worker-0 \(no answer\)"):
        watch.wait(run, timeout=0.1)
    watch.stop()


def test_waiting_ends_when_all_are_there(run: Run, listener: socket.socket) -> None:
    watch = watched(run, member(f"127.0.0.1:{listener.getsockname()[1]}"))
    watch.wait(run, timeout=10)

    assert run.progress.snapshot.waiting_for == []
    watch.stop()


def test_sigterm_ends_the_waiting(run: Run) -> None:
    run.stop.set()
    watch = watched(run, member("127.0.0.1:1"))

    with pytest.raises(TerminatedError):
        watch.wait(run, timeout=10)
    watch.stop()


def test_seconds_count_from_the_first_failed_probe_and_an_answer_ends_them(run: Run) -> None:
    answers: list[Failure | None] = [None]
    watch = watched(run, member("a:1"), probe=lambda _: answers[-1])
    watch.wait(run, timeout=5)
    for _ in range(2):
        left_at = time.monotonic()
        answers.append(NO_ANSWER)
        (silent,) = until(lambda: run.progress.snapshot.unreachable, "it is missed", patience=5)
        assert (silent.task, silent.cause, silent.reason) == (
            "worker-0",
            Cause.TIMED_OUT,
            "no answer",
        )
        assert silent.since is not None
        assert silent.since >= left_at
        answers.append(None)
        until(lambda: not run.progress.snapshot.unreachable, "it is back", patience=2)
    watch.stop()


def test_a_peer_that_is_still_being_asked_reports_not_asked_and_no_seconds(run: Run) -> None:
    release = threading.Event()

    def probe(_: Member) -> Failure:
        release.wait(30)
        return NO_ANSWER

    watch = watched(run, member("a:1"), probe=probe)
    time.sleep(1.2)
    (entry,) = run.progress.document()["unreachable"]
    assert (entry["cause"], entry["seconds"]) == ("NotAsked", 0.0)
    release.set()
    (entry,) = until(
        lambda: [e for e in run.progress.document()["unreachable"] if e["cause"] == "TimedOut"],
        "it is asked",
        patience=5,
    )
    assert entry["seconds"] < 1.0
    watch.stop()


@pytest.mark.parametrize(
    ("first", "second", "goes_on"),
    [
        pytest.param(Cause.NOT_RESOLVED, Cause.REFUSED, False, id="the name resolves now"),
        pytest.param(Cause.REFUSED, Cause.NOT_RESOLVED, False, id="the name no longer resolves"),
        pytest.param(Cause.REFUSED, Cause.TIMED_OUT, True, id="down in another way"),
        pytest.param(Cause.NOT_RESOLVED, Cause.NOT_RESOLVED, True, id="still not resolved"),
    ],
)
def test_seconds_count_only_the_time_with_the_same_evidence(
    run: Run, first: Cause, second: Cause, *, goes_on: bool
) -> None:
    causes = [first]
    watch = watched(run, member("a:1"), probe=lambda _: Failure(causes[-1], f"{len(causes)}"))
    before = until(lambda: _entry(run, "1"), "the first cause", patience=5)
    time.sleep(0.3)
    causes.append(second)
    after = until(lambda: _entry(run, "2"), "the second cause", patience=5)

    assert (after.since == before.since) is goes_on
    watch.stop()


def _entry(run: Run, reason: str) -> Unreachable | None:
    return next((e for e in run.progress.snapshot.unreachable if e.reason == reason), None)


def test_one_that_hangs_delays_no_other(run: Run) -> None:
    release = threading.Event()

    def probe(each: Member) -> Failure | None:
        if each.task.index == 0:
            release.wait(30)
        return None

    watch = watched(run, member("a:1", 0), member("b:1", 1), probe=probe)
    until(
        lambda: run.progress.snapshot.waiting_for == ["worker-0"], "worker-1 is there", patience=5
    )
    release.set()
    watch.stop()


def test_a_question_that_fails_is_asked_again(run: Run) -> None:
    questions = itertools.chain([ValueError("odd")], itertools.repeat(None))

    def probe(_: Member) -> Failure | None:
        if error := next(questions):
            raise error
        return None

    watch = watched(run, member("a:1"), probe=probe)
    watch.wait(run, timeout=5)
    watch.stop()


def test_a_port_is_in_use_while_something_is_connected_to_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not connections.is_in_use(port)
        with socket.create_connection(("127.0.0.1", port)):
            assert connections.is_in_use(port)
        server.accept()[0].close()
        assert not connections.is_in_use(port)
