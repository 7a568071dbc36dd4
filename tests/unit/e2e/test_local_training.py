"""The demo's local training: commands one after another, whose lines are shown as they come."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from e2e.demo import MANIFEST
from e2e.local_training import LocalTraining, commands

_SECONDS = 10.0


def test_it_installs_tensorflow_and_runs_the_demos_manifest_with_it() -> None:
    install, train = commands(MANIFEST, Path("/kept"))

    assert install[-1] == ".venv-trainer/ready"
    assert train[1:6] == ["-m", "tftraining.cli", "run", "--local", MANIFEST]
    assert Path("/kept/checkpoints") in train


def test_lines_are_shown_as_they_are_written() -> None:
    first, lines = threading.Event(), list[str]()

    def show(line: str) -> None:
        lines.append(line)
        first.set()

    script = "import sys; print('one', flush=True); sys.stdin.read(); print('two')"
    training = LocalTraining([[sys.executable, "-c", script], ["echo", "three"]], show)
    training.begin()
    assert first.wait(_SECONDS)
    training.wait()

    assert lines == ["one", "two", "three"]
    assert not training.runs


def test_a_failure_is_shown_and_nothing_more_is_run() -> None:
    lines: list[str] = []
    training = LocalTraining(
        [["sh", "-c", "echo no network; exit 3"], ["echo", "no"]], lines.append
    )
    training.begin()
    training.wait()

    assert lines == ["no network", "sh -c echo no network; exit 3 failed (exit 3):"]


def test_one_that_never_began_is_not_waited_for() -> None:
    LocalTraining([["echo"]], print).wait()
