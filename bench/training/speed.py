"""Measures the examples per second of one setup, and the memory of its processes."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.training.processes import (
    PLAIN,
    STOCK,
    Machine,
    Memory,
    Process,
    addresses,
    image_variables,
    machine,
)
from bench.training.setups import TASKS, Setup

_POLL = 0.01
_ENDLESS = "--epochs=100000"
_QUIET = "--log-seconds=3600"


@dataclass(frozen=True, slots=True)
class Speed:
    """What one setup did in one window."""

    examples_per_second: float
    cpu: dict[str, float]
    """Processor time for each second of the window, by role."""
    memory: dict[str, Memory]
    """By role."""
    first_step_seconds: float
    """From the start of the process that trains (or schedules) to its first step."""


def measure(setup: Setup, folder: Path, warm_up: float, window: float) -> Speed:
    """Start the setup, let it warm up (seconds), and measure for a window (seconds)."""
    with machine(folder) as here:
        start = {"plain": _plain, "several": _several}.get(setup.kind, _job)
        first, count = start(setup, here)
        first.until(lambda: count() or None, "first step")
        started = time.monotonic() - first.began
        time.sleep(warm_up)
        before, began = _cpu(here), time.monotonic()
        rate = _rate(first, count, window)
        seconds = time.monotonic() - began
        cpu = {role: (used - before[role]) / seconds for role, used in _cpu(here).items()}
        memory = {process.name: process.memory() for process in here.processes}
        return Speed(rate, cpu, memory, started)


def _cpu(here: Machine) -> dict[str, float]:
    used: dict[str, float] = {}
    for process in here.processes:
        used[process.name] = used.get(process.name, 0.0) + process.cpu_seconds()
    return used


def _plain(setup: Setup, here: Machine) -> tuple[Process, Callable[[], int]]:
    arguments: list[str | Path] = [PLAIN, "speed", TASKS / f"{setup.task}.py", str(setup.batch)]
    process = here.start("plain", arguments, range(setup.size))
    return process, lambda: _last_number(process)


def _several(setup: Setup, here: Machine) -> tuple[Process, Callable[[], int]]:
    arguments: list[str | Path] = [PLAIN, "speed", TASKS / f"{setup.task}.py", str(setup.batch)]
    env = image_variables() if setup.has_image else {}
    processes = [here.start("plain", arguments, [core], env) for core in range(setup.size)]

    def examples() -> int:
        counts = [_last_number(process) for process in processes]
        return sum(counts) if all(counts) else 0

    return processes[0], examples


def _last_number(process: Process) -> int:
    counts = [int(line) for line in process.lines if line.isdigit()]
    return counts[-1] if counts else 0


def _job(setup: Setup, here: Machine) -> tuple[Process, Callable[[], int]]:
    chief = start_job(
        here,
        setup,
        f"--task={TASKS / f'{setup.task}.py'}",
        f"--batch-size={setup.batch}",
        _ENDLESS,
        _QUIET,
        "--seed=1",
    )
    per_step = setup.batch * setup.batches_a_step
    if setup.is_stock:
        return chief, lambda: _last_number(chief) * per_step
    return chief, lambda: chief.progress().get("step", 0) * per_step


def start_job(here: Machine, setup: Setup, *arguments: str) -> Process:
    """Start all processes of a job, each on its core; return its chief."""
    command: list[str | Path] = ["-m", "tftrainer", *arguments, *setup.arguments]
    if setup.is_stock:
        command = [STOCK, setup.kind, TASKS / f"{setup.task}.py", str(setup.batch)]
    if setup.kind == "Mirrored":
        devices = f"--logical-cpus={setup.size}"
        env = {"TFTRAINING_STRATEGY": "Mirrored"}
        return here.start("chief", [*command, devices], range(setup.size), env)
    spec = servers(here, setup, command)
    cores = range(setup.size if setup.kind == "ParameterServer" else 1)
    return here.start("chief", command, cores, environment(spec, setup, "chief", 0))


def servers(here: Machine, setup: Setup, command: Sequence[str | Path]) -> dict[str, list[str]]:
    """Start all of a job but its chief; return everybody's addresses by role."""
    is_asynchronous = setup.kind == "ParameterServer"
    counts = {"chief": 1, "worker": setup.size - (not is_asynchronous), "ps": int(is_asynchronous)}
    spec = addresses(counts)
    shared = range(min(setup.size, _cores()))
    for role in ("ps", "worker"):
        for index in range(len(spec.get(role, []))):
            own = index if is_asynchronous else index + 1
            cores = shared if role == "ps" else [own % _cores()]
            here.start(role, command, cores, environment(spec, setup, role, index))
    return spec


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def environment(spec: dict[str, list[str]], setup: Setup, role: str, index: int) -> dict[str, str]:
    """Return what the operator sets: servers are told only themselves."""
    known: object = spec
    if role != "chief" and setup.kind == "ParameterServer" and not setup.is_stock:
        known = {role: {str(index): spec[role][index]}}
    task = {"type": role, "index": index}
    return {
        "TF_CONFIG": json.dumps({"cluster": known, "task": task}),
        "TFTRAINING_STRATEGY": setup.kind,
        "TFTRAINING_WORKERS": str(len(spec.get("worker", []))),
    }


def _rate(process: Process, count: Callable[[], int], window: float) -> float:
    """Count between two moments at which a step was just made, that far apart at least."""

    def changed(since: int) -> tuple[float, int]:
        def look() -> tuple[float, int] | None:
            now = count()
            return (time.monotonic(), now) if now > since else None

        return process.until(look, "further step")

    begin, first = changed(count())
    time.sleep(window)
    end, last = changed(count())
    return (last - first) / (end - begin)
