"""`make classics`: runs all of them and fills docs/guide/classics; names of pages run only these.

Set MNIST_DIR (see tftrainer.examples.mnist) for the row of real images.
"""

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from bench.classics import curve
from bench.classics.local_job import ROOT, run
from tools import pages

PAGES = ROOT / "docs/guide/classics"
ROUNDS = 3

_CURVE = "from tftrainer.examples.exponential import of_one_process as f; print(*f(300))"
_ENSEMBLE = "tftrainer.examples.placement.ensemble"


def exponential() -> str:
    """Draw the curve; say how far the two are apart."""
    done = run("exponential")
    losses = [float(row.split(",")[1]) for row in done.history.splitlines()[1:]]
    curve.draw(PAGES / "exponential.png", losses, _of_one_process())
    return _listing([_words(done.chief_log, r"(300 losses .*)")])


def model_parallel() -> str:
    """Show the places, the losses and the times."""
    lines = run("model-parallel").chief_log.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("hidden layer"))
    last = next(i for i, line in enumerate(lines) if line.startswith("a step takes"))
    return (
        f"{_listing(lines[first : last + 1])}\n\nMedians of the steps, on {os.cpu_count()} cores."
    )


def placement() -> str:
    """Show the program's own table, and that of the ensemble, which is no job."""
    pages.fill(PAGES / "placement.md", "ensemble", _listing(_of_trainer("-m", _ENSEMBLE)))
    lines = run("placement").chief_log.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("value "))
    last = max(i for i, line in enumerate(lines) if "/job:" in line)
    return _listing(lines[first : last + 1])


def mirrored_mnist() -> str:
    """Compare one replica with two, in turns."""
    images: dict[str, tuple[int, dict[str, str]]] = {"digits of 8x8": (3, {})}
    if folder := os.environ.get("MNIST_DIR"):
        # 160 steps each: twice the 10,000 of the classic run.
        images["MNIST's, 28x28"] = (125, {"MNIST_DIR": str(Path(folder).resolve())})
    settings = {
        "1, batch 100": {"--batch-size=50": "--batch-size=100", "cpus=2": "cpus=1"},
        "2, batch 50 each": {},
    }
    said = r"held-out accuracy (\S+), .* for (\S+) s, an epoch in (\S+) s"
    rows = []
    for kind, (epochs, variables) in images.items():
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in settings}
        for _ in range(ROUNDS):
            for name, changes in settings.items():
                length = {"--epochs=3": f"--epochs={epochs}"}
                log = run("mirrored-mnist", {**length, **changes}, **variables).chief_log
                found[name].append(tuple(float(number) for number in _groups(log, said)))
        one = statistics.median(epoch for _, _, epoch in next(iter(found.values())))
        for name, rounds in found.items():
            accuracy, training, epoch = (
                statistics.median(column) for column in zip(*rounds, strict=True)
            )
            times = f"{training:.1f} s", f"{epoch:.2f} s", f"{epoch / one:.2f}"
            rows.append([kind, name, str(epochs), f"{accuracy:.4f}", *times])
    head = ["images", "replicas", "epochs", "accuracy"]
    head += ["training", "an epoch", "time against one replica"]
    return pages.table(head, rows) + f"\n\nMedians of {ROUNDS} rounds, on {os.cpu_count()} cores."


def both_ways() -> str:
    """Compare the ways, and show the sums."""
    ways: Mapping[str, Mapping[str, str]] = {
        "Keras fit, DatasetCreator": {},
        "Keras fit, tf.data": {"--fit-input=creator": "--fit-input=dataset"},
        "custom loop": {"--mode=fit": "--mode=asynchronous"},
    }
    said = r"training is complete: step (\d+)/.*?, .*?accuracy (\S+)"
    rows = []
    for name, changes in ways.items():
        steps, accuracy = _groups(run("both-ways", dict(changes)).chief_log, said)
        rows.append([name, steps, f"{float(accuracy):.3f}"])
    log = run("both-ways-sum").chief_log
    sums = [line for line in log.splitlines() if "possible:" in line]
    return f"{pages.table(['way', 'steps', 'accuracy in training'], rows)}\n\n{_listing(sums)}"


def embedding() -> str:
    """Show what each ps holds, with the table cut and whole."""
    rows = []
    for name, changes in {
        "in two parts": {},
        "whole (`--partition-bytes=0`)": {"--partition-bytes=1000000": "--partition-bytes=0"},
    }.items():
        log = run("embedding", changes).chief_log
        held = dict(re.findall(r"/job:ps/\S+/task:(\d)/\S+ holds (\S+) MB", log))
        accuracy = _words(log, r"held-out accuracy (\S+),")
        rows.append([name, *(f"{held.get(ps, '0.0')} MB" for ps in "01"), accuracy])
    return pages.table(["the table is kept", "ps 0", "ps 1", "held-out accuracy"], rows)


CLASSICS: Mapping[str, Callable[[], str]] = {
    "exponential": exponential,
    "model-parallel": model_parallel,
    "placement": placement,
    "mirrored-mnist": mirrored_mnist,
    "both-ways": both_ways,
    "embedding": embedding,
}


def main(wanted: Sequence[str]) -> int:
    """Run the classics named, or all; return the exit code."""
    unknown = [name for name in wanted if name not in CLASSICS]
    if unknown:
        print(f"unknown classic {unknown[0]}: one of {', '.join(CLASSICS)}")
        return 64
    for name in wanted or CLASSICS:
        print(f"· {name}", flush=True)
        pages.fill(PAGES / f"{name}.md", "measured", CLASSICS[name]())
    return 0


def _of_one_process() -> list[float]:
    (line,) = _of_trainer("-c", _CURVE)
    return [float(loss) for loss in line.split()]


def _of_trainer(*arguments: str) -> list[str]:
    """Run the trainer's Python with these arguments; return the lines that it prints."""
    done = subprocess.run(
        [str(ROOT / ".venv-trainer/bin/python"), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "trainer_image"),
            "TF_USE_LEGACY_KERAS": "1",
            "CUDA_VISIBLE_DEVICES": "-1",
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.splitlines()


def _groups(log: str, pattern: str) -> tuple[str, ...]:
    found = re.search(pattern, log)
    if found is None:
        raise ValueError(f"the chief did not say {pattern!r}:\n{log}")
    return found.groups()


def _listing(lines: Iterable[str]) -> str:
    """Write lines as they are."""
    return "\n".join(["```", *lines, "```"])


def _words(log: str, pattern: str) -> str:
    return _groups(log, pattern)[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
