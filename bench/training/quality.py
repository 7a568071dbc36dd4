"""What distribution costs in accuracy: the same number of examples, trained by one process and two.

All train the tiny network on real digits, from the same seeds; only the mean over the seeds says
anything, because asynchronous steps come in another order each time.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path

from bench.training.processes import PLAIN, machine
from bench.training.setups import BATCH, TASKS, Setup
from bench.training.speed import environment, servers

LIMIT = 0.005
"""How much the means may differ: half a point."""

_EPOCHS = 8
_TASK = TASKS / "digits.py"
_BATCH = str(BATCH["mlp"])
_EVALUATE = Path(__file__).with_name("evaluate.py")
MODES = {
    "asynchronous": "ParameterServer asynchronous, 2 workers",
    "local": "ParameterServer local steps, 2 workers",
}


@dataclass(frozen=True, slots=True)
class Quality:
    """The accuracies of one way to train, one for each seed."""

    name: str
    accuracies: list[float]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.accuracies)


def measure(folder: Path, seeds: range) -> list[Quality]:
    """Train with each seed: one process first, then each mode."""
    setup = Setup("digits", "ParameterServer", 2)
    found = [_plain(folder / "plain", seeds)]
    with machine(folder / "jobs") as here:
        # The servers take one chief after another, as they do when a chief is restarted.
        spec = servers(here, setup, ["-m", "tftrainer", f"--task={_TASK}"])
        for mode in MODES:
            for seed in seeds:
                arguments = (
                    *("-m", "tftrainer", f"--task={_TASK}", f"--batch-size={_BATCH}"),
                    *(f"--epochs={_EPOCHS}", f"--seed={seed}", f"--mode={mode}"),
                    f"--checkpoint-dir={folder / mode / str(seed)}",
                )
                chief = here.start("chief", arguments, [1], environment(spec, setup, "chief", 0))
                chief.wait()
    return [*found, *(_evaluated(folder, mode, seeds) for mode in MODES)]


def _plain(folder: Path, seeds: range) -> Quality:
    with machine(folder) as here:
        arguments: list[str | Path] = [
            PLAIN,
            "accuracy",
            _TASK,
            _BATCH,
            str(_EPOCHS),
            *map(str, seeds),
        ]
        process = here.start("plain", arguments, [0, 1])
        process.wait()
        return Quality("one process", _numbers(process.lines))


def _evaluated(folder: Path, mode: str, seeds: range) -> Quality:
    with machine(folder / f"evaluate-{mode}") as here:
        checkpoints = [folder / mode / str(seed) for seed in seeds]
        arguments: list[str | Path] = [_EVALUATE, _TASK, _BATCH, *checkpoints]
        process = here.start("evaluate", arguments, [0, 1])
        process.wait()
        return Quality(MODES[mode], _numbers(process.lines))


def _numbers(lines: list[str]) -> list[float]:
    return [float(line) for line in lines if line.startswith(("0.", "1."))]
