"""Trains for some epochs, undisturbed or not, and counts what was seen."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
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
_SLEEP = "--option=sleep=10000"
"""Microseconds a batch, where something has to happen in the middle."""
_STEPS = 20
"""Of an attempt, before that happens: with three devices an epoch has 67."""
_TERMINATED = 143
_LOST_A_MEMBER = 69
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """One training and what it saw."""

    kind: str
    """A mode of ParameterServer, Mirrored or MultiWorkerMirrored."""
    workers: str
    """Workers, devices or members: a number, or those of each attempt."""
    order: str
    fault: str
    epochs: tuple[Counter[int], ...] = field(compare=False)
    """Of each epoch: how many examples it trained on so many times."""

    @property
    def seen(self) -> float:
        """The fraction of the examples that an epoch trained on, in the worst one, 0 to 1."""
        return min(1 - counts[0] / counts.total() for counts in self.epochs)

    @property
    def repeated(self) -> int:
        """How many times an example was trained on again in the same epoch."""
        return sum(
            (times - 1) * n for counts in self.epochs for times, n in counts.items() if times > 1
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
    return Run(kind, str(workers), order, "none", _counted(folder, 1))


def input_cost(workers: int, folder: Path, known: Servers) -> float:
    """Train four epochs whose examples are decoded images; return the workers' seconds of CPU.

    In one alone, what each worker traces when it begins would be a fifth of it.
    """
    before = known.cpu_seconds()
    with machine(folder) as here:
        _start(here, "asynchronous", workers, known, "--option=decode=1", "--epochs=4")
        _wait(here)
    return known.cpu_seconds() - before


def losing_a_worker(kind: str, workers: int, order: str, folder: Path, known: Servers) -> Run:
    """Train two epochs, in the middle of the first of which a worker is killed."""
    with machine(folder) as here:
        chief = _start(here, kind, workers, known, "--epochs=2", _shuffle(order), _SLEEP)
        _until_step(chief, _STEPS)
        known.lose_worker(workers - 1)
        _wait(here)
    return Run(kind, str(workers), order, "a worker is killed", _counted(folder, 2))


def losing_a_member(kind: str, workers: int, order: str, folder: Path, known: Servers) -> Run:
    """Train two epochs; a member is killed in the first, and all resume from a checkpoint."""
    arguments = ("--epochs=2", _shuffle(order), _SLEEP, "--checkpoint-seconds=0.5")
    with machine(folder) as here:
        chief = _start(here, kind, workers, known, *arguments)
        _until_step(chief, _STEPS)
        here.processes[-1].popen.kill()
        _ended(chief, _LOST_A_MEMBER)
    with machine(folder) as here:
        _start(here, kind, workers, known, *arguments)
        _wait(here)
    return Run(kind, str(workers), order, "a member is killed", _counted(folder, 2))


def interrupted(kind: str, workers: Sequence[int], order: str, folder: Path, known: Servers) -> Run:
    """Train two epochs with so many workers in turn; SIGTERM ends all attempts but the last."""
    for number, count in enumerate(workers):
        is_last = number == len(workers) - 1
        with machine(folder) as here:
            chief = _start(here, kind, count, known, "--epochs=2", _shuffle(order), _SLEEP)
            if is_last:
                _wait(here)
                continue
            _until_step(chief, _STEPS)
            for process in here.processes:
                process.popen.send_signal(signal.SIGTERM)
            for process in here.processes:
                _ended(process, _TERMINATED)
    same = len(set(workers)) == 1
    fault = "SIGTERM and resume" if same else "scaled"
    return Run(kind, "→".join(map(str, workers)), order, fault, _counted(folder, 2))


def _ended(process: Process, wanted: int) -> None:
    code = process.popen.wait(_PATIENCE_SECONDS)
    if code != wanted:
        raise BenchError(f"{process.name} ended with {code}: {process.lines[-10:]}")


def _until_step(chief: Process, more: int) -> None:
    def began() -> int | None:
        document = chief.progress()
        return (document.get("resumedStep") or 0) if document.get("phase") == "training" else None

    first = chief.until(began, "training")
    chief.until(lambda: chief.progress().get("step", 0) > first + more or None, f"{more} steps")


def _start(here: Machine, kind: str, workers: int, known: Servers, *arguments: str) -> Process:
    ckpt = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "bench"}
    arguments = (f"--option=epochs={here.folder}", *arguments)
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
    """Wait until all have ended well, and the chief with all its steps made."""
    for process in here.processes:
        process.wait()
    chief = here.processes[0]
    done = json.loads(chief.output.with_suffix(".termination").read_text())
    if done["step"] != done["totalSteps"]:
        raise BenchError(f"training ended at step {done['step']} of {done['totalSteps']}")


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


def _counted(folder: Path, epochs: int) -> tuple[Counter[int], ...]:
    """Return how often each epoch trained on its examples; raises if they are not so many."""
    env = {"PYTHONPATH": str(HERE.parents[1] / "trainer_image"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [PYTHON, HERE / "seen.py", folder / "ckpt"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"seen.py ended with {done.returncode}: {done.stderr[-2000:]}")
    ends = [folder / f"epoch-{number}.json" for number in range(1, epochs + 1)]
    if missing := [end.name for end in ends if not end.exists()]:
        raise BenchError(f"callbacks were not told of the end of {', '.join(missing)}")
    if (folder / f"epoch-{epochs + 1}.json").exists():
        raise BenchError(f"training made more than {epochs} epochs")
    counts = [[0] * EXAMPLES, *(json.loads(end.read_text()) for end in ends)]
    if counts[-1] != json.loads(done.stdout):
        raise BenchError("the last checkpoint has seen something else than the last epoch's end")
    return tuple(
        Counter(after - before for before, after in zip(*each, strict=True))
        for each in pairwise(counts)
    )
