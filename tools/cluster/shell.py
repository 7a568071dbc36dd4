"""Runs other programs; a failure is a ClusterError with the end of their output."""

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

Say = Callable[[str], None]
"""Reports progress: one call, one line."""

Argument = str | Path

_LAST_LINES = 15


class ClusterError(Exception):
    """A cluster cannot be started or used; the message says what to do."""


class NoClusterError(ClusterError):
    """No cluster can be used: that of KUBECONFIG must not, or none can run on this machine."""


def silent(_line: str) -> None:
    """Report nothing."""


def run(
    command: Sequence[Argument],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text_in: str | None = None,
    file_in: IO[bytes] | None = None,
    timeout: float | None = None,
) -> str:
    """Run a program and return its output. Raises ClusterError."""
    words = [str(word) for word in command]
    variables = merged(env)
    if shutil.which(words[0], path=variables.get("PATH")) is None:
        raise ClusterError(f"{words[0]} is not installed")
    try:
        done = subprocess.run(
            bound(words),
            env=variables,
            cwd=cwd,
            input=text_in.encode() if text_in is not None else None,
            # An inherited stdin would let the program read the user's keystrokes.
            stdin=None if text_in is not None else file_in or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{_title(words)} was still running after {timeout:.0f} s") from error
    output = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        last = "\n".join(output.rstrip().splitlines()[-_LAST_LINES:])
        raise ClusterError(f"{_title(words)} failed (exit {done.returncode}):\n{last}")
    return output


def run_by_line(
    command: Sequence[Argument],
    each: Say,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a program, and call `each` for every line as it writes it. Raises ClusterError."""
    words = [str(word) for word in command]
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(
        bound(words),
        env=merged(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            last.append(line.rstrip())
            each(last[-1])
    if process.returncode != 0:
        end = "\n".join(last)
        raise ClusterError(f"{_title(words)} failed (exit {process.returncode}):\n{end}")


def bound(command: Sequence[Argument]) -> list[str]:
    """Make a command end with this process, even if this process is killed."""
    words = [str(word) for word in command]
    return ["setpriv", "--pdeathsig", "TERM", *words] if shutil.which("setpriv") else words


def succeeds(
    command: Sequence[Argument],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> bool:
    """Whether a program is installed and exits with 0."""
    try:
        run(command, env=env, timeout=timeout)
    except ClusterError:
        return False
    return True


def merged(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return this process's environment with some variables changed."""
    return {**os.environ, **(env or {})}


def _title(words: Sequence[str]) -> str:
    return " ".join([Path(words[0]).name, *words[1:4]])
