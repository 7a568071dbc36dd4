"""Trains the recommender in one way, and reads what its process printed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.recommender.sizes import BATCH, BATCHES, EPOCHS, PARTITION_BYTES
from bench.training.processes import ROOT, Machine, Process, addresses, machine

HERE = Path(__file__).parent
TASK, PLAIN = HERE / "clicks.py", HERE / "plain.py"
CORES = (0, 1)
SERVERS = {"ps": 2, "worker": 2}
"""One of each on either core; the chief may use both."""
CHECKPOINT_SECONDS = 5.0
_PATIENCE_SECONDS = 900.0
_IMPORTS = {"PYTHONPATH": f"{ROOT / 'trainer_image'}:{ROOT}"}
_STEPS = EPOCHS * BATCHES["train"]


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one training."""

    examples_per_second: float
    """Between the first end of an epoch and the last, as are the next two."""
    seconds: float
    saves: int
    """Checkpoints that were written meanwhile."""
    auc: float
    best_auc: float
    """Of the probabilities that the clicks were drawn by."""
    chief_peak: int
    """Most resident memory of the process that trains or coordinates, in MB."""


def one(folder: Path) -> Run:
    """Fit in one process that has all cores."""
    with machine(folder) as here:
        process = here.start("one", [PLAIN, "one"], CORES, _IMPORTS)
        return _run(process)


def stock(folder: Path) -> Run:
    """Fit under ParameterServerStrategy, without this project."""
    with machine(folder) as here:
        return _run(_cluster(here, [PLAIN, "stock"], {}))


def ours(folder: Path, *, saves: bool = False) -> Run:
    """Train with the trainer, in its default mode."""
    arguments: list[str | Path] = ["-m", "tftrainer", f"--task={TASK}", f"--batch-size={BATCH}"]
    arguments += [f"--epochs={EPOCHS}", "--export=none", f"--partition-bytes={PARTITION_BYTES}"]
    env = {}
    if saves:
        arguments.append(f"--checkpoint-seconds={CHECKPOINT_SECONDS}")
        env = {"TFTRAINING_CHECKPOINT_DIR": str(folder / "checkpoints")}
    with machine(folder) as here:
        return _run(_cluster(here, arguments, env))


def _cluster(here: Machine, arguments: list[str | Path], env: Mapping[str, str]) -> Process:
    """Start all processes; return the chief's."""
    known = addresses({"chief": 1, **SERVERS})

    def start(role: str, index: int, cores: tuple[int, ...]) -> Process:
        task = {"type": role, "index": index}
        given = {
            "TF_CONFIG": json.dumps({"cluster": known, "task": task}),
            "TFTRAINING_JOB": "recommender",
            "TFTRAINING_JOB_UID": "recommender",
            "TFTRAINING_STRATEGY": "ParameterServer",
            "TFTRAINING_WORKERS": str(SERVERS["worker"]),
        }
        return here.start(f"{role}-{index}", arguments, cores, {**_IMPORTS, **given, **env})

    for role, count in SERVERS.items():
        for index in range(count):
            start(role, index, (CORES[index % len(CORES)],))
    return start("chief", 0, CORES)


def _run(process: Process) -> Run:
    saved: set[int] = set()

    def look() -> list[list[str]] | None:
        newest = process.progress().get("lastCheckpoint") or {}
        saved.add(newest.get("step", 0))
        return _printed(process, "auc") or None

    words = process.until(look, "AUC", patience=_PATIENCE_SECONDS)[0]
    epochs = _printed(process, "epoch")
    seconds = float(epochs[-1][2]) - float(epochs[0][2])
    first = _STEPS // len(epochs)
    return Run(
        examples_per_second=(_STEPS - first) * BATCH / seconds,
        seconds=seconds,
        saves=len([step for step in saved if first < step < _STEPS]),
        auc=float(words[1]),
        best_auc=float(words[2]),
        chief_peak=process.memory().peak,
    )


def _printed(process: Process, what: str) -> list[list[str]]:
    return [line.split() for line in process.lines if line.startswith(f"{what} ")]
