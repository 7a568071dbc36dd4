"""From the start of a process to serving, beside `import tensorflow` alone; each has one core."""

import time
from collections.abc import Callable
from pathlib import Path

from bench.training.processes import Machine, Process, listens, machine
from bench.training.setups import TASKS, Setup
from bench.training.speed import environment
from tools.ports import free_port

_TASK = f"--task={TASKS / 'mlp.py'}"


def measure(folder: Path) -> dict[str, float]:
    """Return seconds by what is started."""
    return {
        "python -c 'import tensorflow'": _seconds(folder, _import),
        "ps: process to serving": _seconds(folder, _server),
        "chief: process to first step, Mirrored, 1 device": _seconds(folder, _chief),
    }


def _seconds(folder: Path, start: Callable[[Machine], Process]) -> float:
    with machine(folder) as here:
        process = start(here)
        return time.monotonic() - process.began


def _import(here: Machine) -> Process:
    process = here.start("import", ["-c", "import tensorflow; print('done', flush=True)"], [0])
    process.until(lambda: True if "done" in process.lines else None, "import")
    return process


def _server(here: Machine) -> Process:
    port = free_port()
    setup = Setup("mlp", "ParameterServer")
    env = environment({"ps": [f"localhost:{port}"]}, setup, "ps", 0)
    process = here.start("ps", ["-m", "tftrainer", _TASK], [0], env)
    process.until(lambda: listens(port), "server")
    return process


def _chief(here: Machine) -> Process:
    arguments = ["-m", "tftrainer", _TASK, "--epochs=1000"]
    process = here.start("chief", arguments, [0], {"TFTRAINING_STRATEGY": "Mirrored"})
    process.until(lambda: process.progress().get("step") or None, "first step")
    return process
