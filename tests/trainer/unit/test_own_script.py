"""The public API for scripts of one's own, without TensorFlow: what is reported, and misuse."""

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tftrainer
from harness import LoopbackCluster, inherited
from tftrainer.config.cluster import Role
from tftrainer.reporting import Reporter
from tftrainer.runtime.progress import Phase

from tools.ports import free_port

NO_NUMBER = "is a list: give a number, outside of tf.function; fetch\\(\\) what"


class Clock:
    """Reports at times of its own, in seconds since the first."""

    def __init__(self, role: Role = Role.CHIEF) -> None:
        self.reporter = Reporter(role, attempt=0)

    def report(self, now: float, step: int, next_seconds: float | None = None, **more: Any) -> None:
        changes = {"step": step, **more}
        metrics = changes.pop("metrics", {})
        self.reporter.report(changes, metrics, next_seconds, now)

    def at(self, now: float) -> dict[str, Any]:
        return self.reporter.progress.snapshot.document(now)


def test_a_report_keeps_what_it_does_not_name() -> None:
    clock = Clock()
    clock.report(0, 0, total_steps=300, metrics={"loss": 2.0, "accuracy": 0.1})
    assert clock.at(0)["phase"] == "waiting"
    clock.report(10, 100, metrics={"loss": 1.0})
    document = clock.at(10)

    assert (document["step"], document["totalSteps"]) == (100, 300)
    assert document["metrics"] == {"loss": 1.0, "accuracy": 0.1}
    assert document["stepsPerSecond"] == 10.0
    assert document["phase"] == "training"
    clock.report(20, 300)
    assert clock.at(20)["phase"] == "done"
    clock.report(30, 400, total_steps=500)
    assert clock.at(30)["phase"] == "training"


def test_a_step_is_missing_only_when_the_next_report_is_overdue() -> None:
    clock = Clock()
    clock.report(0, 0)
    assert clock.at(500)["secondsSinceStep"] is None, "no step yet"
    clock.report(100, 50)
    clock.report(160, 100)
    # The last two were 60 s apart.
    assert clock.at(220)["secondsSinceStep"] == 0
    assert clock.at(250)["secondsSinceStep"] == 30
    # The same step again is none, unless it says when the next one is due.
    clock.report(260, 100)
    assert clock.at(270)["secondsSinceStep"] == 50
    clock.report(270, 100, next_seconds=600)
    assert clock.at(869)["secondsSinceStep"] == 0
    assert clock.at(880)["secondsSinceStep"] == 10


def test_the_first_report_says_when_the_next_is_due_as_all_others() -> None:
    clock = Clock()
    clock.report(0, 0, next_seconds=600)
    assert clock.at(599)["phase"] == "waiting"
    assert clock.at(599)["secondsSinceStep"] == 0
    assert clock.at(610)["secondsSinceStep"] == 10
    clock.report(620, 100)
    assert clock.at(620)["phase"] == "training"


def test_steps_that_were_restored_are_no_speed() -> None:
    clock = Clock()
    clock.report(0, 0, total_steps=3000)
    clock.report(20, 2000, resumed_step=2000)
    assert clock.at(20)["stepsPerSecond"] is None
    clock.report(30, 2100)
    assert clock.at(30)["stepsPerSecond"] == 10.0
    # A script may say so in each of its reports.
    clock.report(40, 2200, resumed_step=2000)
    assert clock.at(40)["stepsPerSecond"] == 10.0


def test_the_speed_is_that_after_a_step_back() -> None:
    clock = Clock()
    for now, step in ((0, 0), (10, 1000), (20, 500), (30, 600)):
        clock.report(now, step)
    assert clock.at(30)["stepsPerSecond"] == 10.0


def test_an_evaluator_evaluates() -> None:
    clock = Clock(Role.EVALUATOR)
    clock.report(0, 100, metrics={"accuracy": 0.9})
    assert clock.reporter.progress.snapshot.phase is Phase.EVALUATING


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        pytest.param({"step": "x"}, TypeError, "step is a str: give a whole number", id="text"),
        pytest.param({"step": None}, TypeError, "step is a NoneType", id="nothing"),
        pytest.param({"step": -1}, ValueError, "step is -1: give a whole number", id="negative"),
        pytest.param({"step": 1, "total_steps": 1.5}, ValueError, "total_steps is 1.5", id="part"),
        pytest.param({"step": 1, "loss": [1]}, TypeError, f"loss {NO_NUMBER}", id="a list"),
        pytest.param({"step": 1, "metrics": {"a": [1]}}, TypeError, f"a {NO_NUMBER}", id="metric"),
        pytest.param({"step": 1, "metrics": {"a" * 64: 1}}, ValueError, "1 to 63", id="long name"),
        pytest.param(
            {"step": 1, "checkpoint": 7}, TypeError, "checkpoint is a int: give", id="path"
        ),
        pytest.param({"step": 1, "next_seconds": 0}, ValueError, "positive number", id="no time"),
        pytest.param(
            {"step": 1, "next_seconds": "soon"},
            TypeError,
            "next_seconds is a str: give a positive number",
            id="a word as a time",
        ),
        pytest.param(
            {"step": 1, "metrics": [0.5]},
            TypeError,
            "metrics is a list: give a dict of numbers by their names",
            id="metrics without names",
        ),
        pytest.param({"step": math.inf}, ValueError, "step is inf: give a whole", id="endless"),
    ],
)
def test_what_cannot_be_reported_is_refused_with_the_fix(
    given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        tftrainer.report(**given)


def test_more_metrics_than_the_status_keeps_are_refused() -> None:
    clock = Clock()
    clock.report(0, 0, metrics={f"metric {i}": 1.0 for i in range(32)})
    with pytest.raises(ValueError, match="33 metrics are reported: choose at most 32"):
        clock.report(1, 1, metrics={"one more": 1.0})


def run(folder: Path, source: str, env: Mapping[str, str]) -> tuple[int, str, str]:
    """Exit code, standard error and termination log of a script."""
    log = folder / "termination-log"
    log.touch()
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**inherited(), "TFTRAINING_TERMINATION_LOG": str(log), **env},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr, log.read_text()


REPORTS = """
import sys, tftrainer
tftrainer.report({step}, total_steps=10, loss=0.5)
assert "tensorflow" not in sys.modules
{then}
"""


@pytest.mark.parametrize(
    ("step", "then", "code", "left"),
    [
        pytest.param(10, "", 0, '{"version":1,', id="complete"),
        pytest.param(10, "import os; os._exit(0)", 0, '{"version":1,', id="complete, without exit"),
        pytest.param(10, "sys.exit()", 0, '{"version":1,', id="complete, and says so"),
        pytest.param(10, "1 / 0", 1, "ZeroDivisionError: division by zero", id="then fails"),
        pytest.param(10, "sys.exit('no room')", 1, "no room", id="then exits with a reason"),
        pytest.param(10, "sys.exit(3)", 3, "", id="then exits; the log has the cause"),
        pytest.param(9, "1 / 0", 1, "", id="fails before; the log has the cause"),
    ],
)
def test_the_last_report_outlives_the_process_unless_it_fails(
    tmp_path: Path, step: int, then: str, code: int, left: str
) -> None:
    env = {"TFTRAINING_PROGRESS_PORT": str(free_port())}
    ended = run(tmp_path, REPORTS.format(step=step, then=then), env)

    assert ended[0] == code, ended[1]
    assert ended[2].startswith(left)
    assert bool(ended[2]) == bool(left)
    assert ("ZeroDivisionError" in ended[1]) == (then == "1 / 0")
    assert ("no room" in ended[1]) == ("no room" in then)
    if ended[2].startswith("{"):
        assert json.loads(ended[2])["metrics"] == {"loss": 0.5}


SERVES = "import tftrainer; tftrainer.server.serve()"
IN_A_THREAD = """
import threading, tftrainer
thread = threading.Thread(target=tftrainer.server.serve)
thread.start()
thread.join()
"""
PS = LoopbackCluster.of(worker=1, ps=1)


@pytest.mark.parametrize(
    ("source", "env", "text"),
    [
        pytest.param(SERVES, {}, "TF_CONFIG is not set", id="alone"),
        pytest.param(SERVES, PS.env("chief"), "by chief-0, but only workers and ps", id="chief"),
        pytest.param(SERVES, PS.env("evaluator"), "by evaluator-0, but only", id="evaluator"),
        pytest.param(
            SERVES,
            LoopbackCluster.of("MultiWorkerMirrored", worker=1).env("worker"),
            "MultiWorkerMirrored, whose workers train: set strategy: ParameterServer",
            id="a worker that trains",
        ),
        pytest.param(IN_A_THREAD, PS.env("ps"), "call it in the main thread", id="in a thread"),
    ],
)
def test_a_process_that_cannot_serve_ends_with_the_fix(
    tmp_path: Path, source: str, env: dict[str, str], text: str
) -> None:
    code, _, left = run(tmp_path, source, env)

    assert code == 64
    assert text in left


def test_a_script_may_import_what_the_package_names_and_no_more_is_loaded() -> None:
    source = (
        "import sys, tftrainer; print(tftrainer.__all__, {'tensorflow', 'grpc'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=inherited(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == "['Context', 'report', 'server'] set()\n"


AFTERWARDS = """
import json, time, urllib.request
import numpy as np
import tftrainer
tftrainer.report(np.int64(0))
tftrainer.report(np.int32(5), loss=np.float32(0.5), next_seconds=np.float32(0.2))
time.sleep(0.5)
page = urllib.request.urlopen("http://localhost:{port}/progress", timeout=10)
assert json.load(page)["secondsSinceStep"] > 0
"""


def test_numbers_of_numpy_are_served_also_when_the_next_step_is_overdue(tmp_path: Path) -> None:
    port = free_port()
    code, log, _ = run(
        tmp_path, AFTERWARDS.format(port=port), {"TFTRAINING_PROGRESS_PORT": str(port)}
    )
    assert code == 0, log


IN_A_HANDLER = """
import os, signal, sys, tftrainer
from tftrainer.runtime import progress

def handle(*_):
    tftrainer.report(7, checkpoint="ckpt-7")
    sys.exit(143)

replace = progress.replace

def interrupted(*given, **changes):
    progress.replace = replace
    os.kill(os.getpid(), signal.SIGTERM)
    return replace(*given, **changes)

signal.signal(signal.SIGTERM, handle)
tftrainer.report(6)
progress.replace = interrupted
tftrainer.report(7)
"""


def test_a_handler_of_sigterm_may_report_whatever_it_interrupts(tmp_path: Path) -> None:
    env = {"TFTRAINING_PROGRESS_PORT": str(free_port())}
    assert run(tmp_path, IN_A_HANDLER, env)[0] == 143
