"""Starts training processes on given cores, asks how far they are, and ends them by their pid."""

import contextlib
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tools.ports import free_port

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-trainer/bin/python"
PLAIN = Path(__file__).with_name("plain.py")
STOCK = Path(__file__).with_name("stock.py")

_PATIENCE = 180.0
_POLL = 0.02
_KILL_SECONDS = 5.0


class BenchError(Exception):
    """A process did not do what is measured; carries its last words."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in MB: now, of that what is the process's own, and the most so far."""

    steady: int
    private: int
    peak: int


@dataclass
class Process:
    """One process, pinned to its cores from before its first instruction."""

    name: str
    popen: subprocess.Popen[bytes]
    output: Path
    progress_port: int
    began: float

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        return self.output.read_text().splitlines()

    def progress(self) -> dict[str, Any]:
        """Return its progress document; {} while it serves none."""
        try:
            url = f"http://127.0.0.1:{self.progress_port}/progress"
            with urllib.request.urlopen(url, timeout=5) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}

    def memory(self) -> Memory:
        """Read its memory from /proc."""
        folder = Path(f"/proc/{self.popen.pid}")
        pages = _kilobytes(folder / "smaps_rollup")
        status = _kilobytes(folder / "status")
        return Memory(
            steady=pages["Rss"] // 1000,
            private=pages["Anonymous"] // 1000,
            peak=status.get("VmHWM", pages["Rss"]) // 1000,
        )

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used."""
        # The name, in parentheses, may hold spaces.
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def until(self, found: Callable[[], T | None], what: str, *, patience: float = _PATIENCE) -> T:
        """Wait for a value; raises BenchError if the process ends or takes too long (seconds)."""
        end = time.monotonic() + patience
        while (value := found()) is None:
            if self.popen.poll() is not None or time.monotonic() > end:
                last = "\n".join(self.lines[-15:])
                raise BenchError(f"{self.name}: no {what}. Its last words:\n{last}")
            time.sleep(_POLL)
        return value

    def wait(self) -> None:
        """Wait until it has ended well."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_PATIENCE)
        if self.popen.returncode != 0:
            last = "\n".join(self.lines[-15:])
            raise BenchError(f"{self.name} ended with {self.popen.returncode}:\n{last}")


@dataclass
class Machine:
    """The processes of one measurement, in a folder of their own; all end with the block."""

    folder: Path
    processes: list[Process] = field(default_factory=list)

    def start(
        self,
        name: str,
        arguments: Sequence[str | Path],
        cores: Collection[int],
        env: dict[str, str] | None = None,
    ) -> Process:
        """Start the trainer's Python with these arguments on these cores.

        The trainer's own processes have the variables of its image.
        """
        output = self.folder / f"{len(self.processes)}-{name}.log"
        port = free_port()
        with output.open("wb") as log:
            popen = subprocess.Popen(
                [PYTHON, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=_inherited()
                | {
                    # What a killed process leaves of TensorFlow's generated code goes along.
                    "TMPDIR": str(self.folder),
                    "TFTRAINING_PROGRESS_PORT": str(port),
                    "TFTRAINING_TERMINATION_LOG": str(output.with_suffix(".termination")),
                }
                | (image_variables() if "tftrainer" in arguments else {})
                | (env or {}),
                # TensorFlow sizes its pools of threads by what it may use when it starts.
                preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - no threads here
            )
        process = Process(name, popen, output, port, time.monotonic())
        self.processes.append(process)
        return process


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Have processes for the time of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    here = Machine(folder)
    try:
        yield here
    finally:
        for process in here.processes:
            process.popen.terminate()
        for process in here.processes:
            try:
                process.popen.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()


def addresses(counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Return free addresses on loopback by role; none of a role that has no tasks."""
    return {
        role: [f"localhost:{free_port()}" for _ in range(count)]
        for role, count in counts.items()
        if count
    }


def image_variables() -> dict[str, str]:
    """Return what the trainer's image has set before a process starts, and which can't be later."""
    dockerfile = (ROOT / "trainer_image/Dockerfile").read_text()
    return dict(re.findall(r"^ +(GLIBC_TUNABLES)=(\S+)", dockerfile, re.MULTILINE))


def listens(port: int) -> bool | None:
    """Whether a port takes connections; None if not, as `Process.until` wants it."""
    with socket.socket() as probe:
        return True if probe.connect_ex(("127.0.0.1", port)) == 0 else None


def _inherited() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "MNIST_DIR") if name in os.environ}
    return kept | {
        "PYTHONPATH": str(ROOT / "trainer_image"),
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": "1",  # as the image has it, for `import tensorflow` alone
    }


def _kilobytes(path: Path) -> dict[str, int]:
    words = (line.split() for line in path.read_text().splitlines())
    return {w[0].rstrip(":"): int(w[1]) for w in words if len(w) == 3 and w[2] == "kB"}
