"""Whoever obtains a cluster or starts one cleans up, however it is asked to end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.waiting import eventually

ROOT = Path(__file__).parents[3]
OBTAINING = [
    (".".join(path.relative_to(ROOT).with_suffix("").parts), "obtain")
    for path in sorted((ROOT / "e2e").rglob("*.py"))
    if re.search(r"\bobtain\(", path.read_text()) and path.name != "conftest.py"
]
STARTING = [("bench.scale.__main__", "cluster"), ("bench.creation", "running")]
RUNNER = """
import contextlib, importlib, sys, time
_, name, provides = sys.argv
program = importlib.import_module(name)

@contextlib.contextmanager
def provided(*_, **__):
    try:
        print("begun", flush=True)
        time.sleep(60)
        yield
    finally:
        print("cleaned up", flush=True)

setattr(program, provides, provided)
program.program = program.binary = lambda _: None  # neither a browser nor programs are built
program.main()
"""


@pytest.mark.parametrize(("name", "provides"), [*OBTAINING, *STARTING])
def test_a_program_that_is_asked_to_end_cleans_up(name: str, provides: str) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", RUNNER, name, provides]
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.terminate()
        rest, _ = program.communicate(timeout=20)

    assert rest == "cleaned up\n"
    assert program.returncode


TRAINING = """
import os, sys, time
from bench.training import __main__ as program, processes
processes.PYTHON = sys.executable
program._CORES = 1

def measure(_results, _wanted, folder, *_):
    with processes.machine(folder) as here:
        cores = os.sched_getaffinity(0)
        trains = here.start("trains", ["-c", "import time; time.sleep(60)"], cores)
        print(trains.popen.pid, flush=True)
        time.sleep(60)

program._measure = measure
program.main(page=None)
"""


def test_no_process_trains_on_when_its_measurement_is_asked_to_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        trains = Path(f"/proc/{int(program.stdout.readline())}")
        program.send_signal(signal.SIGTERM)
        program.wait(20)

    eventually(lambda: not trains.exists(), "the process has ended", 5)
