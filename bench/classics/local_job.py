"""Runs an example's manifest as processes on this computer, as a user does: `tftj run --local`."""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 600.0


class LocalJobError(Exception):
    """A job did not succeed; carries what it printed."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a job that succeeded left."""

    chief_log: str
    history: str
    """The text of history.csv, "" if it wrote none."""


def run(name: str, changes: dict[str, str] | None = None, **variables: str) -> Done:
    """Run examples/<name>.yaml with some of its text replaced; the variables are for all its tasks.

    Raises LocalJobError, and ValueError for text that is not in the manifest.
    """
    manifest = (ROOT / f"examples/{name}.yaml").read_text()
    for old, new in (changes or {}).items():
        if old not in manifest:
            raise ValueError(f"examples/{name}.yaml has no {old!r} that could be replaced")
        manifest = manifest.replace(old, new)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        command = [
            *(str(ROOT / ".venv/bin/python"), "-m", "tftraining.cli", "run", "--local"),
            *("-", "--python", str(ROOT / ".venv-trainer/bin/python")),
            *(f"--env={key}={value}" for key, value in variables.items()),
        ]
        path = os.pathsep.join([str(ROOT / "operator"), str(ROOT / "trainer_image")])
        # Which images a job sees is for its own variables to say.
        around = {key: value for key, value in os.environ.items() if key != "MNIST_DIR"}
        done = subprocess.run(
            command,
            input=manifest,
            cwd=folder,
            env={**around, "PYTHONPATH": path},
            check=False,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
        )
        if done.returncode != 0:
            raise LocalJobError(f"{name}: {done.stdout}{done.stderr}")
        history = folder / f"{name}-checkpoints/history.csv"
        return Done(
            chief_log=(folder / f"{name}-logs/{name}-chief-0.log").read_text(),
            history=history.read_text() if history.exists() else "",
        )
