"""Trains the demo's job as processes of this computer while its cluster is being built.

It is a `tftj run --local` of the same manifest, with TensorFlow in .venv-trainer as the trainer's
tests use it. Its lines are printed as they come, between those of the build.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.cluster.shell import Argument, ClusterError, run_by_line

ROOT = Path(__file__).parents[1]

_ENVIRONMENT = ".venv-trainer/ready"
"""The target of the Makefile that installs TensorFlow; nothing is done if it is up to date."""
_PACKAGES = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'trainer_image'}"}
"""Where the processes find tftj and the trainer, which are not installed."""


def commands(manifest: Path, folder: Path) -> list[list[Argument]]:
    """Return what installs TensorFlow and then trains; folder receives checkpoints and logs."""
    train: list[Argument] = [
        *(sys.executable, "-m", "tftraining.cli", "run", "--local", manifest),
        *("--python", ROOT / ".venv-trainer/bin/python"),
        *("--checkpoint-dir", folder / "checkpoints", "--log-dir", folder / "logs"),
    ]
    return [["make", "--silent", "--no-print-directory", "-C", ROOT, _ENVIRONMENT], train]


class LocalTraining:
    """Commands that run one after another in a thread; their lines go to `show`."""

    def __init__(self, commands: Sequence[Sequence[Argument]], show: Callable[[str], None]) -> None:
        self._commands = commands
        self._show = show
        self._thread = threading.Thread(target=self._run, name="local training", daemon=True)

    def begin(self) -> None:
        """Begin, and return at once."""
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether it has begun and not ended."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the end, if it has begun."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            for command in self._commands:
                run_by_line(command, self._show, env=_PACKAGES)
        except ClusterError as error:
            # Its last lines are shown already. The demo goes on: its result is that of the cluster.
            self._show(str(error).splitlines()[0])
