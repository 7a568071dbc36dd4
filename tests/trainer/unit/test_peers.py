"""Waiting for peers over real sockets."""

import socket
from collections.abc import Iterator

import pytest
from harness import free_port
from tftrainer import peers
from tftrainer.cluster import Member, Role, Task
from tftrainer.errors import PeersUnavailableError, TerminatedError
from tftrainer.progress import Progress, Snapshot
from tftrainer.supervisor import Run
from tftrainer.watchdog import Watchdog


@pytest.fixture
def run() -> Run:
    watchdog = Watchdog(stall_seconds=1, first_step_seconds=1)
    return Run(Progress(Snapshot(role=Role.CHIEF)), watchdog)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def member(address: str, index: int = 0) -> Member:
    return Member(Task(Role.WORKER, index), address)


def test_a_listener_connects_and_a_closed_port_refuses(listener: socket.socket) -> None:
    assert peers.connects(member(f"127.0.0.1:{listener.getsockname()[1]}")) is None
    assert peers.connects(member(f"127.0.0.1:{free_port()}")) == "connection refused"


def test_a_name_that_nobody_knows_is_said_to_be_so() -> None:
    assert peers.connects(member("nobody.invalid:2222")) == "its name does not resolve"


def test_a_process_that_listens_but_hangs_does_not_answer(listener: socket.socket) -> None:
    reason = peers.answers(member(f"127.0.0.1:{listener.getsockname()[1]}"))

    assert reason is not None
    assert "does not serve" in reason


def test_those_missing_are_named_when_time_is_up(run: Run, listener: socket.socket) -> None:
    there = member(f"127.0.0.1:{listener.getsockname()[1]}", 0)
    absent = member(f"127.0.0.1:{free_port()}", 1)

    with pytest.raises(PeersUnavailableError, match=r"worker-1 \(connection refused\)"):
        peers.wait([there, absent], run, timeout=0.1, check=peers.connects)
    assert run.progress.snapshot.waiting_for == ("worker-1",)


def test_waiting_ends_when_all_are_there(run: Run, listener: socket.socket) -> None:
    there = member(f"127.0.0.1:{listener.getsockname()[1]}")
    peers.wait([there], run, timeout=10, check=peers.connects)

    assert run.progress.snapshot.waiting_for == ()


def test_sigterm_ends_the_waiting(run: Run) -> None:
    run.stop.set()

    with pytest.raises(TerminatedError):
        peers.wait([member("127.0.0.1:1")], run, timeout=10, check=peers.connects)
