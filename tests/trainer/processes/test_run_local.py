"""`tftj run --local` with the real trainer, as a user starts it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import until

from tools.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
TFTJ = ROOT / ".venv/bin/python"
COMMAND = [str(TFTJ), "-m", "tftraining.cli"]
EXAMPLE = ROOT / "examples/mnist.yaml"
PATIENCE = 150.0
TRAINS = re.compile(r"step [1-9]\d*/\d+ .*steps/s")

pytestmark = pytest.mark.skipif(not TFTJ.exists(), reason="tftj needs .venv: run `make venv`")


@dataclass
class LocalRun:
    """One `tftj run --local` of the mnist example, in a folder of its own."""

    folder: Path
    popen: subprocess.Popen[bytes]

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    def until(self, wanted: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not wanted():
            assert time.monotonic() < end, f"timed out: {what}\n{self.out}"
            assert self.popen.poll() is None, f"exited before {what}\n{self.out}"
            time.sleep(0.1)

    def trains(self) -> None:
        self.until(lambda: TRAINS.search(self.out), "it trains")

    def ends(self) -> int:
        try:
            return self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"tftj does not exit\n{self.out}") from None

    def tasks(self) -> dict[str, int]:
        """The pids of its processes by the names of their pods."""
        found = {}
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                text = (process / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            variables = dict(each.partition("=")[::2] for each in text.split("\0"))
            if variables.get("RUN_FOLDER") == str(self.folder) and "TF_CONFIG" in variables:
                found[variables["HOSTNAME"]] = int(process.name)
        return found


@contextmanager
def tensorboard(folder: Path) -> Iterator[str]:
    """Run `tftj tensorboard job.yaml` in a run's folder; Ctrl-C ends it."""
    port = free_port()
    with (folder / "board").open("wb") as out:
        popen = subprocess.Popen(
            [*COMMAND, "tensorboard", "job.yaml", f"--port={port}"],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"http://127.0.0.1:{port}"
        popen.send_signal(signal.SIGINT)
        assert popen.wait(PATIENCE) == 0, (folder / "board").read_text()
    finally:
        popen.kill()
        popen.wait()


def shows(address: str, *wanted: str) -> None:
    """Wait until TensorBoard shows a loss of each of these roles."""

    def look() -> bool:
        try:
            url = f"{address}/data/plugin/scalars/tags"
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own
                runs = json.loads(answer.read())
        except (urllib.error.URLError, OSError):
            return False
        return all(any("loss" in tag for tag in runs.get(role, {})) for role in wanted)

    until(look, "TensorBoard shows the losses", patience=PATIENCE)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {
        "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'trainer_image'}",
        "TFTJ_PYTHON": sys.executable,
        "RUN_FOLDER": str(folder),
        "COLUMNS": "200",
        "TMPDIR": str(folder / "tmp"),
    }


@contextmanager
def running(
    folder: Path, *, epochs: int, task: str = "tftrainer.examples.mnist"
) -> Iterator[LocalRun]:
    job = EXAMPLE.read_text().replace(
        "--task=tftrainer.examples.mnist, --epochs=3", f"--task={task}, --epochs={epochs}"
    )
    assert f"--task={task}, --epochs={epochs}]" in job
    (folder / "job.yaml").write_text(job)
    (folder / "tmp").mkdir(exist_ok=True)
    with (folder / "out").open("wb") as out:
        popen = subprocess.Popen(
            [*COMMAND, "run", "--local", "job.yaml"],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    run = LocalRun(folder, popen)
    try:
        yield run
        assert run.tasks() == {}, "no process is left"
        assert [path.name for path in (folder / "tmp").iterdir()] == []
    finally:
        popen.kill()
        popen.wait()


def test_the_example_trains_and_is_evaluated(tmp_path: Path) -> None:
    with running(tmp_path, epochs=2) as run:
        assert run.ends() == 0, run.out
    accuracy = re.search(r"Succeeded after \d+ s; evaluation: accuracy (0\.\d+)", run.out)
    assert accuracy is not None, run.out
    assert float(accuracy[1]) >= 0.9
    assert "checkpoint: ./mnist-checkpoints/ckpt-540" in run.out
    assert "model: ./mnist-checkpoints/export/540" in run.out
    assert (tmp_path / "mnist-checkpoints/export/540/saved_model.pb").exists()
    with tensorboard(tmp_path) as address:
        shows(address, "chief", "evaluator")


PACED = """
from tensorflow.python.data.experimental.ops import testing
from tftrainer.examples import mnist

model = mnist.model

def dataset(split, context):
    digits = mnist.dataset(split, context)
    return digits.apply(testing.sleep(8_000)) if split == "train" else digits
"""
"""The example with at most 125 batches a second, as fast as the computer may be."""


def test_a_killed_worker_is_restarted_and_the_job_succeeds(tmp_path: Path) -> None:
    (tmp_path / "paced.py").write_text(PACED)
    with running(tmp_path, epochs=5, task="paced.py") as run:
        run.trains()
        before = run.tasks()
        os.kill(before["mnist-worker-0"], signal.SIGKILL)
        run.until(
            lambda: run.tasks().get("mnist-worker-0") not in (None, before["mnist-worker-0"]),
            "the worker is restarted",
        )
        assert run.tasks()["mnist-chief-0"] == before["mnist-chief-0"], "the chief continues"
        assert run.ends() == 0, run.out
    assert "mnist-worker-0: ExitCode (exit code 137): killed (SIGKILL)" in run.out


def test_ctrl_c_saves_and_the_same_command_resumes(tmp_path: Path) -> None:
    with running(tmp_path, epochs=60) as run:
        run.trains()
        run.popen.send_signal(signal.SIGINT)
        assert run.ends() == 130, run.out
    saved = re.search(r"checkpoint: \./mnist-checkpoints/ckpt-(\d+); the same", run.out)
    assert saved is not None, run.out
    # A few steps more than it has: fewer would leave nothing to train, which is refused.
    with running(tmp_path, epochs=int(saved[1]) // 270 + 2) as run:
        assert run.ends() == 0, run.out
    assert f"resuming from ckpt-{saved[1]}" in run.out


def test_an_invalid_task_fails_the_job_with_its_message(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("def model():\n    return None\n")
    with running(tmp_path, epochs=2, task="task.py") as run:
        assert run.ends() == 1, run.out
    assert "Failed (PermanentFailure): mnist-chief-0 exited with 64" in run.out
    assert "dataset" in run.out
