"""What distribution costs in accuracy, after the same number of examples from the same seeds.

Two tasks: one is small and wholly shuffled; the other comes class by class, so that a worker which
misses a part of an epoch shows. Only the mean over the seeds says anything, because asynchronous
steps come in another order each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.training.processes import PLAIN, machine
from bench.training.setups import BATCH, TASKS, Setup
from bench.training.speed import environment, servers

_BATCH = BATCH["mlp"]
_EVALUATE = Path(__file__).with_name("evaluate.py")


@dataclass(frozen=True, slots=True)
class Way:
    """A mode of ParameterServer."""

    name: str
    """In tables."""
    mode: str
    rate_times_workers: bool = False
    """Whether the learning rate is multiplied by the number of workers: a mean of their changes
    moves the variables by that of one."""


_WAYS = (
    Way("ParameterServer asynchronous", "asynchronous"),
    Way("ParameterServer local steps", "local"),
    Way(
        "ParameterServer local steps, learning rate times workers",
        "local",
        rate_times_workers=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Question:
    """One task, trained by one process and by several workers in each way."""

    task: str
    data: str
    """What is said of it in tables."""
    workers: int
    epochs: int
    limit: float
    """How much the mean may fall."""


QUESTIONS = (
    Question("digits", "digits, shuffled", workers=2, epochs=8, limit=0.005),
    Question("by_class", "digits by class, small buffer", workers=3, epochs=16, limit=0.003),
)


@dataclass(frozen=True, slots=True)
class Quality:
    """The accuracies of one process and of each other way to train, one for each seed."""

    question: Question
    accuracies: Mapping[str, list[float]]


ONE = "one process"


def measure(question: Question, folder: Path, seeds: range) -> Quality:
    """Train with each seed: one process first, then in each way."""
    task = TASKS / f"{question.task}.py"
    setup = Setup(question.task, "ParameterServer", question.workers)
    found = {ONE: _plain(question, task, folder / "plain", seeds)}
    with machine(folder / "jobs") as here:
        # The servers take one chief after another, as they do when a chief is restarted.
        spec = servers(here, setup, ["-m", "tftrainer", f"--task={task}"])
        for number, way in enumerate(_WAYS):
            times = question.workers if way.rate_times_workers else 1
            for seed in seeds:
                arguments = (
                    *("-m", "tftrainer", f"--task={task}", f"--batch-size={_BATCH}"),
                    *(f"--epochs={question.epochs}", f"--seed={seed}"),
                    f"--mode={way.mode}",
                    f"--checkpoint-dir={folder / str(number) / str(seed)}",
                )
                variables = environment(spec, setup, "chief", 0) | {"RATE_TIMES": str(times)}
                here.start("chief", arguments, [1], variables).wait()
    for number, way in enumerate(_WAYS):
        where = folder / str(number)
        checkpoints = [where / str(seed) for seed in seeds]
        found[f"{way.name}, {question.workers} workers"] = _evaluated(task, where, checkpoints)
    return Quality(question, found)


def _plain(question: Question, task: Path, folder: Path, seeds: range) -> list[float]:
    with machine(folder) as here:
        told = [str(_BATCH), str(question.epochs), *map(str, seeds)]
        process = here.start("plain", [PLAIN, "accuracy", task, *told], [0, 1])
        process.wait()
        return _numbers(process.lines)


def _evaluated(task: Path, folder: Path, checkpoints: list[Path]) -> list[float]:
    with machine(folder / "evaluate") as here:
        process = here.start("evaluate", [_EVALUATE, task, str(_BATCH), *checkpoints], [0, 1])
        process.wait()
        return _numbers(process.lines)


def _numbers(lines: list[str]) -> list[float]:
    return [float(line) for line in lines if line.startswith(("0.", "1."))]
