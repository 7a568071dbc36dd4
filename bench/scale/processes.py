"""Runs a contender's process, and says what it costs by the kernel.

On a busy machine the kernel's count holds where times do not.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tools.cluster.shell import ClusterError
from tools.waiting import eventually

_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 300
_END_SECONDS = 30
_LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class Process:
    """A running process."""

    pid: int
    began: float = 0.0
    """When (perf_counter) it was started."""
    log: Path | None = None

    def cpu(self) -> float:
        """Return the CPU seconds (user and system) it has used, all its threads together."""
        # The name of a process, in parentheses, may contain blanks.
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_memory(self) -> float:
        """Return the peak of its resident memory (MB) since `forget_peak`."""
        found = re.search(r"^VmHWM:\s+(\d+) kB$", self._read("status"), re.MULTILINE)
        return int(found[1]) / 1000 if found else 0.0

    def forget_peak(self) -> None:
        """Let the peak begin at what is resident now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def problem(self) -> str | None:
        """Return that it has ended, with what it said last; None while it runs."""
        try:
            ended = self._read("stat").rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            ended = True
        return f"the operator has ended\n{self.last_words()}" if ended else None

    def last_words(self) -> str:
        """Return the last lines of its log."""
        return "" if self.log is None else _tail(self.log)

    def _read(self, name: str) -> str:
        return Path(f"/proc/{self.pid}/{name}").read_text()


@contextmanager
def running(
    command: Sequence[str | Path], environment: Mapping[str, str], log: Path, ready: str
) -> Iterator[Process]:
    """Run a process from when the URL `ready` answers 200 to the end of the block.

    Raises ClusterError with the end of its log if it does not become ready.
    """
    with log.open("ab") as out:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    name = Path(command[0]).name
    try:
        try:
            eventually(lambda: process.poll() is not None or _says_yes(ready), name, _START_SECONDS)
        except AssertionError as error:
            raise ClusterError(
                f"{name} is not ready after {_START_SECONDS} s ({ready})\n{_tail(log)}"
            ) from error
        if process.poll() is not None:
            raise ClusterError(f"{name} has ended at once\n{_tail(log)}")
        yield Process(process.pid, began, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])


def _says_yes(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
