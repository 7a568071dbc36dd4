"""Waiting for peers over real sockets, and watching them."""

import itertools
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from harness import free_port, until
from tftrainer import peers
from tftrainer.cluster import Member, Role, Task
from tftrainer.errors import PeersUnavailableError, TerminatedError
from tftrainer.peer_watch import PeerWatch
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


def watched(run: Run, *members: Member, check: peers.Check = peers.connects) -> PeerWatch:
    watch = PeerWatch(members, run.progress, check)
    watch.start()
    return watch


def test_a_listener_connects_and_a_closed_port_refuses(listener: socket.socket) -> None:
    assert peers.connects(member(f"127.0.0.1:{listener.getsockname()[1]}")) is None
    assert peers.connects(member(f"127.0.0.1:{free_port()}")) == "connection refused"


def test_a_name_that_nobody_knows_is_said_to_be_so() -> None:
    assert peers.connects(member("nobody.invalid:2222")) == "its name does not resolve"


def test_a_process_that_listens_but_hangs_does_not_answer(listener: socket.socket) -> None:
    reason = peers.Answers()(member(f"127.0.0.1:{listener.getsockname()[1]}"))

    assert reason is not None
    assert "does not serve" in reason


def test_those_missing_are_named_when_time_is_up(run: Run, listener: socket.socket) -> None:
    there = member(f"127.0.0.1:{listener.getsockname()[1]}", 0)
    absent = member(f"127.0.0.1:{free_port()}", 1)
    watch = watched(run, there, absent)

    with pytest.raises(PeersUnavailableError, match=r"worker-1 \(connection refused\)"):
        watch.wait(run, timeout=0.5)
    assert run.progress.snapshot.waiting_for == ["worker-1"]
    watch.stop()


def test_nobody_is_given_up_who_was_not_asked(run: Run) -> None:
    def check(_: Member) -> str:
        time.sleep(0.5)
        return "no answer"

    watch = watched(run, member("a:1"), check=check)
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


def test_silence_counts_from_the_last_answer_and_ends_with_the_next(run: Run) -> None:
    there = threading.Event()
    there.set()
    watch = watched(run, member("a:1"), check=lambda _: None if there.is_set() else "no answer")
    watch.wait(run, timeout=5)
    there.clear()
    left_at = time.monotonic()

    (silent,) = until(lambda: run.progress.snapshot.unreachable, "it is missed", patience=5)
    assert (silent.task, silent.reason) == ("worker-0", "no answer")
    assert left_at - 3 < silent.since <= left_at
    there.set()
    until(lambda: not run.progress.snapshot.unreachable, "it is back", patience=2)
    watch.stop()


def test_one_that_hangs_delays_no_other(run: Run) -> None:
    release = threading.Event()

    def check(each: Member) -> str | None:
        if each.task.index == 0:
            release.wait(30)
        return None

    watch = watched(run, member("a:1", 0), member("b:1", 1), check=check)
    until(
        lambda: run.progress.snapshot.waiting_for == ["worker-0"], "worker-1 is there", patience=5
    )
    release.set()
    watch.stop()


def test_a_question_that_fails_is_asked_again(run: Run) -> None:
    questions = itertools.chain([ValueError("odd")], itertools.repeat(None))

    def check(_: Member) -> str | None:
        if error := next(questions):
            raise error
        return None

    watch = watched(run, member("a:1"), check=check)
    watch.wait(run, timeout=5)
    watch.stop()
