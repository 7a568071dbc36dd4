"""Finds a Python that has the modules that a command needs.

It does not import them: importing TensorFlow takes seconds.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tftraining.errors import InputError

_SECONDS = 30
_MISSING = """\
import importlib.util, sys
print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""


def find(program: str | None, modules: Sequence[str], *, fix: str) -> str:
    """Return the path of a Python that has all of `modules`: `program`, else the running one.

    `fix` explains how to install them. Raises InputError.
    """
    python = shutil.which(program) if program else sys.executable
    if python is None:
        raise InputError(f"--python: no program {program}")
    # Not resolved: the path of the link identifies a virtual environment.
    python = str(Path(python).absolute())
    missing = _missing(python, modules)
    if missing:
        raise InputError(f"{python} has no {' and no '.join(missing)}. {fix}")
    return python


def _missing(python: str, modules: Sequence[str]) -> list[str]:
    command = [python, "-c", _MISSING, *modules]
    try:
        done = subprocess.run(  # noqa: S603 - the program that the user named
            command, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"--python: {python} does not run as a Python: {_why(error)}") from error
    return done.stdout.split()


def _why(error: Exception) -> str:
    """Say it without the command, which is a program by itself."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer for {_SECONDS} s"
    if isinstance(error, subprocess.CalledProcessError):
        said = str(error.stderr).strip().splitlines()
        return said[-1] if said else f"exit code {error.returncode}"
    return str(error)
