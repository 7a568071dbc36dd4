"""A program in a container whose connection may break, or fall silent."""

from __future__ import annotations

import json
import time
from collections import defaultdict

import pytest
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDERR_CHANNEL, STDOUT_CHANNEL
from tftraining.cluster import execution
from tftraining.cluster.execution import Execution
from tftraining.errors import TFTrainingError, UnreachableError

_Frame = tuple[int, bytes]


class Socket:
    """The client's WebSocket: each update brings the next frame, None for the time of silence."""

    def __init__(self, *frames: _Frame | None) -> None:
        self._frames = list(frames)
        self._read: dict[int, bytes] = defaultdict(bytes)
        self.updates = 0

    def is_open(self) -> bool:
        return True

    def update(self, timeout: float) -> None:
        self.updates += 1
        assert self.updates < 10, "it goes on for ever"
        frame = self._frames.pop(0) if self._frames else None
        if frame is None:
            time.sleep(timeout)
        else:
            self._read[frame[0]] += frame[1]

    def read_channel(self, channel: int) -> bytes:
        return self._read.pop(channel, b"")

    def peek_channel(self, channel: int) -> bytes:
        return self._read.get(channel, b"")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_SILENCE", 0.05)


def reading(*frames: _Frame | None) -> Execution:
    return Execution(Socket(*frames))  # type: ignore[arg-type]


def test_output_is_read_to_the_end() -> None:
    end = json.dumps({"status": "Success"}).encode()
    program = reading((STDOUT_CHANNEL, b"one"), (STDERR_CHANNEL, b"a note"), (ERROR_CHANNEL, end))
    assert [program.read(), program.read()] == [b"one", b""]


def test_a_program_that_fails_is_told_in_its_words() -> None:
    end = json.dumps({"status": "Failure", "message": "exit code 1"}).encode()
    program = reading((STDERR_CHANNEL, b"disk error\n"), (ERROR_CHANNEL, end))
    with pytest.raises(TFTrainingError, match="disk error"):
        program.read()


def test_a_connection_without_a_byte_is_broken() -> None:
    program = reading((STDOUT_CHANNEL, b"one"), (STDERR_CHANNEL, b"a note"))
    assert program.read() == b"one"
    with pytest.raises(UnreachableError, match="nothing came from the pod for 0 s"):
        program.read()


def test_a_ping_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_SILENCE", 60.0)
    ping = (STDOUT_CHANNEL, b"")
    assert reading(ping, ping, (STDOUT_CHANNEL, b"one")).read() == b"one"
