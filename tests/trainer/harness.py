"""Starts real trainer processes on loopback and waits for what they do; ends each by its pid."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from preloaded import Forked, Template

from tools.ports import free_port

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "--task=tftrainer.examples.mnist"
DIGITS = "--task=light_digits"
"""For what needs no network like the example's: it takes half of the time."""
EXPORTS = "--export=saved_model,keras"
"""For what tests the exported model; all others do without the time that it takes."""
PATIENCE = 120.0
POLL = 0.05


def until(wanted: Callable[[], T], what: str, *, patience: float = PATIENCE) -> T:
    """Wait for a true value; the failure says what was waited for."""
    end = time.monotonic() + patience
    while not (value := wanted()):
        assert time.monotonic() < end, f"not within {patience:.0f} s: {what}"
        time.sleep(POLL)
    return value


@dataclass
class Process:
    """One trainer process."""

    name: str
    popen: subprocess.Popen[bytes] | Forked
    log_file: Path
    termination_log: Path
    progress_port: int

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def last_words(self) -> str:
        return self.termination_log.read_text()

    def get(self, path: str) -> bytes | None:
        """What it serves, or None if it does not serve (yet, or any more)."""
        try:
            url = f"http://127.0.0.1:{self.progress_port}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                body: bytes = answer.read()
                return body
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def progress(self) -> dict[str, Any]:
        return json.loads(self.get("/progress") or b"{}")

    def progress_until(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait for a progress document; a process that ended instead fails the test at once."""

        def look() -> dict[str, Any] | None:
            document = self.progress()
            if document and wanted(document):
                return document
            assert self.popen.poll() is None, f"{self.name} ended before {what}:\n{self.log}"
            return None

        document = until(look, f"{self.name}: {what}")
        assert document is not None
        return document

    def step_beyond(self, step: int) -> int:
        document = self.progress_until(lambda d: d["step"] > step, f"step beyond {step}")
        return int(document["step"])

    def says(self, text: str, *, patience: float = PATIENCE) -> None:
        def look() -> bool:
            ended = self.popen.poll() is not None
            said = text in self.log
            assert said or not ended, f"{self.name} ended without saying {text!r}:\n{self.log}"
            return said

        try:
            until(look, f"{self.name} says {text!r}", patience=patience)
        except AssertionError as error:
            # What it serves while it is silent says whether it waits, and for whom.
            raise AssertionError(f"{error}:\n{self.log}\n{self.get('/progress')!r}") from None

    def ends(self, *, patience: float = PATIENCE) -> int:
        """Its exit code."""
        try:
            return self.popen.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end:\n{self.log}") from None

    def cpu_seconds(self) -> float:
        """How long it has computed so far."""
        stat = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / 100

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


@dataclass
class Computer:
    """Where the processes of one test run; everything it writes is under one folder."""

    folder: Path
    processes: list[Process] = field(default_factory=list)

    def start(
        self,
        name: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        serve: bool = True,
        module: str = "tftrainer",
        fresh: bool = False,
        hosts: Path | None = None,
    ) -> Process:
        """Start a task; `fresh` has it import TensorFlow itself, as servers always do.

        `hosts` lists all names that it can resolve, in the form of /etc/hosts.
        """
        number = len(self.processes)
        log_file = self.folder / f"{number}-{name}.log"
        termination_log = self.folder / f"{number}-{name}.termination"
        termination_log.touch()
        port = free_port() if serve else 0
        env = {
            **inherited(),
            "TMPDIR": str(self.folder),
            "TFTRAINING_TERMINATION_LOG": str(termination_log),
            "TFTRAINING_PROGRESS_PORT": str(port),
            **(env or {}),
        }
        if module == "tftrainer":
            arguments = ("--export=none", *arguments)
        popen: subprocess.Popen[bytes] | Forked
        if serve and module == "tftrainer" and not fresh and not hosts:
            popen = TEMPLATE.start(list(arguments), env, self.folder, log_file)
        else:
            with log_file.open("wb") as log:
                popen = subprocess.Popen(
                    [
                        *(_resolving(hosts) if hosts else ()),
                        sys.executable,
                        "-m",
                        module,
                        *arguments,
                    ],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    cwd=self.folder,
                    env=env,
                )
        process = Process(name, popen, log_file, termination_log, port)
        self.processes.append(process)
        return process


def _resolving(hosts: Path) -> list[str]:
    """Return the beginning of a command line, with mounts of its own over what names are for."""
    only_files = hosts.with_suffix(".nsswitch")
    only_files.write_text("hosts: files\n")
    return [
        *("unshare", "--map-root-user", "--mount", "sh", "-ec"),
        'mount --bind "$1" /etc/hosts; mount --bind "$2" /etc/nsswitch.conf; shift 2; exec "$@"',
        *("sh", str(hosts), str(only_files)),
    ]


def inherited() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    # TRAINER_PATH: where another copy of the package lies, such as a pruned image's.
    package = os.environ.get("TRAINER_PATH", str(ROOT / "trainer_image"))
    path = f"{package}:{Path(__file__).with_name('tasks')}"
    return {**kept, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUNBUFFERED": "1"}


TEMPLATE = Template(inherited())


@contextmanager
def computer(folder: Path) -> Iterator[Computer]:
    """A computer whose processes are all gone afterwards."""
    here = Computer(folder)
    try:
        yield here
    finally:
        for process in here.processes:
            # A stopped process cannot be told to end but by SIGKILL, which kill() sends.
            if process.popen.poll() is None:
                process.kill()


@dataclass(frozen=True)
class LoopbackCluster:
    """Addresses on loopback for the tasks of one job, and the TF_CONFIG of each."""

    addresses: dict[str, list[str]]
    strategy: str = "ParameterServer"

    @classmethod
    def of(cls, strategy: str = "ParameterServer", **replicas: int) -> "LoopbackCluster":
        addresses = {
            role: [f"localhost:{free_port()}" for _ in range(count)]
            for role, count in {"chief": 1, **replicas}.items()
        }
        return cls(addresses, strategy)

    def env(self, role: str, index: int = 0, **more: str) -> dict[str, str]:
        """As the operator sets it: everybody knows the whole cluster, the evaluator only itself."""
        cluster: dict[str, Any] = self.addresses
        if role == "evaluator":
            cluster = {"evaluator": [f"localhost:{free_port()}"]}
        config = {"cluster": cluster, "task": {"type": role, "index": index}}
        return {
            "TF_CONFIG": json.dumps(config),
            "TFTRAINING_JOB": "scenario",
            "TFTRAINING_STRATEGY": self.strategy,
            "TFTRAINING_WORKERS": str(len(self.addresses.get("worker", []))),
            **more,
        }


@dataclass
class Servers:
    """Workers and ps that outlive the chiefs of several tests, as they do in a cluster."""

    computer: Computer
    cluster: LoopbackCluster
    running: dict[str, Process] = field(default_factory=dict)

    def start(self, role: str, index: int) -> Process:
        env = self.cluster.env(role, index)
        process = self.computer.start(f"{role}-{index}", DIGITS, env=env, serve=False)
        self.running[process.name] = process
        return process

    def revive(self) -> None:
        """Start those again that have ended."""
        for name, process in list(self.running.items()):
            if process.popen.poll() is not None:
                role, index = name.split("-")
                self.start(role, int(index))
