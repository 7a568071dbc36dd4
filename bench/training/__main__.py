"""The command line: python -m bench.training --rounds 5 --page docs/training-performance.md."""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bench.training import quality, report, speed, start
from bench.training.processes import BenchError
from bench.training.report import Results
from bench.training.setups import CNN_PLAIN, RATIOS, Setup
from tools.cluster import engine as engines
from tools.cluster.images import image_bytes, image_name
from tools.cluster.shell import ClusterError
from tools.interrupts import raised

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
# Where nobody looks at a terminal, lines may be as long as the tables need.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)

_CORES = 2
_PARTS = (*(ratio.name for ratio in RATIOS), "accuracy", "start", "image")


@app.command()
def main(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Each measures every setup once.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings for each mean accuracy.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help=f"May be repeated: {', '.join(_PARTS)}.")
    ] = None,
    warm_up: Annotated[float, typer.Option(help="Seconds from the first step on.")] = 2.5,
    window: Annotated[float, typer.Option(help="Seconds that are measured.")] = 15.0,
    page: Annotated[Path | None, typer.Option(help="Replace the tables of this page.")] = None,
) -> None:
    """Measure what distribution costs and gains; fail where a promise is missed."""
    wanted = set(only or _PARTS)
    if unknown := wanted - set(_PARTS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: known are {', '.join(_PARTS)}")
    if len(os.sched_getaffinity(0)) < _CORES:
        console.print(f"[red]this needs {_CORES} cores[/]")
        raise typer.Exit(1)
    results = Results(rounds)
    try:
        with raised(), tempfile.TemporaryDirectory(prefix="bench-training-") as folder:
            _measure(results, wanted, Path(folder), seeds, (warm_up, window))
    except BenchError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
    report.show(console, results)
    if page is not None:
        report.write(page, results)
    raise typer.Exit(0 if report.kept(results) else 1)


def _measure(
    results: Results, wanted: set[str], folder: Path, seeds: int, times: tuple[float, float]
) -> None:
    setups = _setups(wanted)
    results.speeds = {setup: [] for setup in setups}
    for number in range(results.rounds):
        for setup in setups:
            began = time.monotonic()
            found = speed.measure(setup, folder / "speed", *times)
            results.speeds[setup].append(found)
            _say(
                f"round {number + 1}: {setup.name}, {setup.size} cores: "
                f"{found.examples_per_second:,.0f} examples/s ({time.monotonic() - began:.0f} s)"
            )
        if "start" in wanted:
            for what, seconds in start.measure(folder / "start").items():
                results.starts.setdefault(what, []).append(seconds)
    if "accuracy" in wanted:
        _say(f"accuracy with {seeds} seeds")
        results.qualities = [
            quality.measure(each, folder / f"accuracy-{each.task}", range(1, seeds + 1))
            for each in quality.QUESTIONS
        ]
    if "image" in wanted:
        results.image_bytes = _image_bytes()


def _setups(wanted: set[str]) -> list[Setup]:
    """Return what the ratios need, each once, and the plain CNN for its time of a step."""
    ratios = [ratio for ratio in RATIOS if ratio.name in wanted]
    needed = [setup for ratio in ratios for setup in (ratio.base, ratio.setup)]
    if any(setup.task == CNN_PLAIN.task for setup in needed):
        needed.insert(0, CNN_PLAIN)
    return list(dict.fromkeys(needed))


def _image_bytes() -> int | None:
    """Ask the engine that runs, if one does, for the image that it has, if it has."""
    engine = engines.running(_say)
    if engine is None:
        _say("the size of the image is left out: `make images` builds it, and no engine runs")
        return None
    image = image_name("trainer")
    try:
        return image_bytes(engine, image)
    except ClusterError as error:
        _say(f"the size of {image} is left out: {error}")
        return None


def _say(line: str) -> None:
    console.print(f"[dim]·[/] {escape(line)}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(app())
