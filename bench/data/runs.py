"""Trains for some epochs, undisturbed or not, and counts what was seen."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.training.processes import (
    PYTHON,
    BenchError,
    Machine,
    Process,
    addresses,
    listens,
    machine,
)
from tools.ports import free_port

HERE = Path(__file__).parent
EXAMPLES = 6404
BATCH = 32
ORDERS = {"unshuffled": 0, "shuffle(500)": 500, "full shuffle": EXAMPLES}
PS_MODES = ("asynchronous", "synchronous", "local", "fit")
MIRRORED, GANG = "Mirrored", "MultiWorkerMirrored"
KINDS = (*PS_MODES, MIRRORED, GANG)
_SLEEP = "--option=sleep=3000"
"""Microseconds a batch, where something has to happen in the middle."""
_TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Run:
    """One training and what it saw."""

    kind: str
    """A mode of ParameterServer, Mirrored or MultiWorkerMirrored."""
    workers: str
    """Workers, devices or members: a number, or those of each attempt."""
    order: str
    fault: str
    epochs: int
    counts: Counter[int] = field(compare=False)
    """How many examples were trained on so many times."""

    @property
    def seen(self) -> float:
        """The fraction of the examples that every epoch saw, 0 to 1."""
        enough = sum(n for times, n in self.counts.items() if times >= self.epochs)
        return enough / self.counts.total()

    @property
    def repeated(self) -> int:
        """How many times an example was trained on more often than there were epochs."""
        return sum(
            (times - self.epochs) * n for times, n in self.counts.items() if times > self.epochs
        )


class Servers:
    """The workers and the ps of all ParameterServer runs."""

    def __init__(self, here: Machine, workers: int) -> None:
        self._here = here
        self.addresses = addresses({"worker": workers, "ps": 1})
        self._running = {
            (role, index): self._started(role, index)
            for role, known in self.addresses.items()
            for index in range(len(known))
        }

    def cpu_seconds(self) -> float:
        """Return how long all workers have computed by now."""
        return sum(
            process.cpu_seconds()
            for (role, _), process in self._running.items()
            if role == "worker"
        )

    def lose_worker(self, index: int) -> None:
        """Kill a worker and start it again."""
        lost = self._running["worker", index]
        lost.popen.kill()
        lost.popen.wait()
        self._running["worker", index] = self._started("worker", index)

    def _started(self, role: str, index: int) -> Process:
        spec = {role: {str(index): self.addresses[role][index]}}
        process = self._here.start(
            role, _command(), _cores(), _environment(spec, role, index, "ParameterServer")
        )
        port = int(self.addresses[role][index].rpartition(":")[2])
        process.until(lambda: listens(port), "server")
        return process


@contextmanager
def servers(folder: Path, workers: int) -> Iterator[Servers]:
    """Have servers for the time of the block."""
    with machine(folder) as here:
        yield Servers(here, workers)


def undisturbed(kind: str, workers: int, order: str, folder: Path, known: Servers) -> Run:
    """Train one epoch."""
    with machine(folder) as here:
        _start(here, kind, workers, known, _shuffle(order))
        _wait(here)
    return Run(kind, str(workers), order, "none", 1, _counted(folder))


def input_cost(workers: int, folder: Path, known: Servers) -> float:
    """Train one epoch whose examples are decoded images; return the workers' seconds of CPU."""
    before = known.cpu_seconds()
    with machine(folder) as here:
        _start(here, "asynchronous", workers, known, "--option=decode=1")
        _wait(here)
    return known.cpu_seconds() - before


def losing_a_worker(kind: str, workers: int, order: str, folder: Path, known: Servers) -> Run:
    """Train one epoch, in the middle of which a worker is killed."""
    with machine(folder) as here:
        chief = _start(here, kind, workers, known, _shuffle(order), _SLEEP)
        _until_step(chief, 40)
        known.lose_worker(workers - 1)
        _wait(here)
    return Run(kind, str(workers), order, "a worker is killed", 1, _counted(folder))


def interrupted(kind: str, workers: Sequence[int], order: str, folder: Path, known: Servers) -> Run:
    """Train two epochs with so many workers in turn; SIGTERM ends all attempts but the last."""
    for number, count in enumerate(workers):
        is_last = number == len(workers) - 1
        with machine(folder) as here:
            chief = _start(here, kind, count, known, "--epochs=2", _shuffle(order), _SLEEP)
            if is_last:
                _wait(here)
                continue
            _until_step(chief, 40)
            for process in here.processes:
                process.popen.send_signal(signal.SIGTERM)
            for process in here.processes:
                if (code := process.popen.wait(60)) != _TERMINATED:
                    raise BenchError(f"{process.name} ended with {code}: {process.lines[-10:]}")
    same = len(set(workers)) == 1
    fault = "SIGTERM and resume" if same else "scaled"
    return Run(kind, "→".join(map(str, workers)), order, fault, 2, _counted(folder))


def _until_step(chief: Process, more: int) -> None:
    def began() -> int | None:
        document = chief.progress()
        return (document.get("resumedStep") or 0) if document.get("phase") == "training" else None

    first = chief.until(began, "training")
    chief.until(lambda: chief.progress().get("step", 0) > first + more or None, f"{more} steps")


def _start(here: Machine, kind: str, workers: int, known: Servers, *arguments: str) -> Process:
    ckpt = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "bench"}
    if kind in PS_MODES:
        spec = {
            "chief": [f"localhost:{free_port()}"],
            "worker": known.addresses["worker"][:workers],
            "ps": known.addresses["ps"],
        }
        env = _environment(spec, "chief", 0, "ParameterServer") | ckpt
        command = _command(f"--mode={kind}", "--closure-seconds=0.2", *arguments)
        return here.start("chief", command, _cores(), env)
    command = _command("--closure-seconds=0.2", *arguments)
    if kind == MIRRORED:
        env = {"TFTRAINING_STRATEGY": MIRRORED} | ckpt
        return here.start("chief", [*command, f"--logical-cpus={workers}"], _cores(), env)
    gang = addresses({"chief": 1, "worker": workers - 1})
    started = [
        here.start(role, command, _cores(), _environment(gang, role, index, GANG) | ckpt)
        for role, known_as in gang.items()
        for index in range(len(known_as))
    ]
    return started[0]


def _wait(here: Machine) -> None:
    for process in here.processes:
        process.wait()


def _command(*arguments: str) -> list[str | Path]:
    task = (f"--task={HERE / 'task.py'}", f"--option=examples={EXAMPLES}")
    return ["-m", "tftrainer", *task, f"--batch-size={BATCH}", *arguments]


def _shuffle(order: str) -> str:
    return f"--option=shuffle={ORDERS[order]}"


def _environment(spec: object, role: str, index: int, strategy: str) -> dict[str, str]:
    task = {"type": role, "index": index}
    config = json.dumps({"cluster": spec, "task": task})
    return {"TF_CONFIG": config, "TFTRAINING_STRATEGY": strategy}


def _cores() -> set[int]:
    # All of the machine: what is seen must not depend on who is fast.
    return os.sched_getaffinity(0)


def _counted(folder: Path) -> Counter[int]:
    env = {"PYTHONPATH": str(HERE.parents[1] / "trainer_image"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [PYTHON, HERE / "seen.py", folder / "ckpt"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"seen.py ended with {done.returncode}: {done.stderr[-2000:]}")
    return Counter(json.loads(done.stdout))
