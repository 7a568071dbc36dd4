"""Draws the curve of two workers over that of one process, and how far they are apart."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure


def draw(path: Path, of_workers: Sequence[float], of_one: Sequence[float]) -> None:
    """Write a PNG; the losses are those of steps 1, 2, 3 and so on."""
    steps = range(1, len(of_one) + 1)
    figure = Figure(figsize=(8, 4.5), dpi=110, layout="constrained")
    losses = figure.subplots()
    losses.semilogy(steps, of_one, color="tab:orange", lw=5, alpha=0.6, label="one process")
    losses.semilogy(steps, of_workers, color="tab:blue", lw=1.2, label="two workers, averaged")
    losses.set(xlabel="step", ylabel="loss (mean squared error)", xlim=(0, len(of_one)))
    apart = [abs(a - b) / b for a, b in zip(of_workers, of_one, strict=True)]
    differences = losses.twinx()
    differences.plot(steps, apart, color="0.6", lw=0.8, label="relative difference (right)")
    differences.set(ylabel="relative difference", ylim=(0, 4 * max(apart)))
    lines = [*losses.get_lines(), *differences.get_lines()]
    losses.legend(lines, [str(line.get_label()) for line in lines], loc="upper right")
    losses.set_title(f"y = e^x, data-parallel: at most {max(apart):.1e} apart")
    # Without the version of matplotlib, so that equal curves give equal files.
    figure.savefig(path, metadata={"Software": None})
