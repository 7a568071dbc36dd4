"""How signals stop a command."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tftraining.cli.signals import stop_requests
from tftraining.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _nohup() -> Iterator[None]:
    """A command finds the signal ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_nohup")
def test_a_hangup_stays_ignored() -> None:
    with stop_requests() as requests:
        os.kill(os.getpid(), signal.SIGHUP)
    assert (requests.count, requests.exit_code) == (0, None)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_the_first_signal_decides_the_exit_code() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_requests() as requests:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert (requests.count, requests.exit_code) == (2, ExitCode.TERMINATED)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_hangup_is_no_second_request() -> None:
    with stop_requests() as requests:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGHUP)
    assert (requests.count, requests.exit_code) == (1, ExitCode.INTERRUPTED)
