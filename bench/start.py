"""How long tftj takes to start: until a command's help is there, and until it asks the cluster.

The cluster is a server on loopback that notes when the first request arrives. Each round runs all
commands once, so that the machine's other load weighs on all alike; the first is not counted. It
also compiles the modules, as pip does when it installs them.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer
from tftraining.cli.app import app

from tools.pages import fill, table

ROOT = Path(__file__).parents[1]
COMMANDS = tuple(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
_TIMEOUT = 30
_ASKING: dict[str, tuple[str | Path, ...]] = {
    "submit": (ROOT / "examples/mnist.yaml",),
    "scale": ("mnist", "--workers=2"),
    **dict.fromkeys(("suspend", "resume", "restart", "delete"), ("mnist",)),
    **dict.fromkeys(("get", "describe", "logs", "progress", "wait"), ("mnist",)),
    **dict.fromkeys(("metrics", "get-model"), ("mnist",)),
    "convert": ("--from-cluster",),
    **dict.fromkeys(("list", "web", "doctor"), ()),
}
"""The commands that ask the API server, with arguments; `tensorboard` leaves that to kubectl."""


class ApiServer(ThreadingHTTPServer):
    """An API server that has nothing, and notes when it is asked for the first time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = threading.Event()
        self.at = 0.0

    def note(self) -> None:
        """Note that a request has arrived."""
        if not self.asked.is_set():
            self.at = time.perf_counter()
            self.asked.set()


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        assert isinstance(self.server, ApiServer)  # noqa: S101 - the only one
        self.server.note()
        with suppress(OSError):  # who asked was killed
            self.send_error(404)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - http.server's
        """Write nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a command."""

    seconds: float
    processor: float
    """Seconds of a processor: what the other load of the machine does not change."""


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 11,
    page: Annotated[
        Path | None, typer.Option(help="Page of the docs to write the table into.")
    ] = None,
) -> None:
    """Measure how long each command of tftj takes to start, and print a table."""
    helps: dict[str, list[Start]] = {name: [] for name in ("", *COMMANDS)}
    requests: dict[str, list[Start]] = {name: [] for name in _ASKING}
    with _serving() as (server, env):
        for number in range(rounds + 1):
            counts = number > 0  # the first round fills the file system's cache
            for name, found in helps.items():
                start = _help(name, env)
                found.extend([start] * counts)
            for name, found in requests.items():
                start = _first_request(name, server, env)
                found.extend([start] * counts)
    times = report(helps, requests)
    print(times)
    if page is not None:
        fill(page, "start times", times)


def report(helps: dict[str, list[Start]], requests: dict[str, list[Start]]) -> str:
    """Return the table of medians."""
    rows = [
        [f"`tftj {name}`" if name else "`tftj`", *_cells(found), *_cells(requests.get(name, []))]
        for name, found in helps.items()
    ]
    head = ["median of", "`--help`", "of a processor", "first request", "of a processor"]
    return table(head, rows)


def _cells(found: list[Start]) -> list[str]:
    if not found:
        return ["", ""]
    seconds = statistics.median(each.seconds for each in found)
    processor = statistics.median(each.processor for each in found)
    return [f"{seconds:.2f} s", f"{processor:.2f} s"]


def _help(name: str, env: dict[str, str]) -> Start:
    began = time.perf_counter()
    process = _started(name, "--help", env=env)
    processor = _ended(process)
    if process.returncode:
        raise SystemExit(f"tftj {name} --help failed")
    return Start(time.perf_counter() - began, processor)


def _first_request(name: str, server: ApiServer, env: dict[str, str]) -> Start:
    server.asked.clear()
    began = time.perf_counter()
    process = _started(name, *_ASKING[name], env=env)
    asked = server.asked.wait(_TIMEOUT)
    process.kill()
    processor = _ended(process)
    if not asked:
        raise SystemExit(f"tftj {name} does not ask the API server")
    return Start(server.at - began, processor)


def _started(name: str, *arguments: str | Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    start = "from tftraining.cli.app import main; main()"  # as the installed program does
    words = [sys.executable, "-c", start, *([name] if name else []), *arguments]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(words, env=env, stdout=nowhere, stderr=nowhere)


def _ended(process: subprocess.Popen[bytes]) -> float:
    """Wait for the end of a process; return its seconds of a processor."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _serving() -> Iterator[tuple[ApiServer, dict[str, str]]]:
    """Serve, and give the environment of a user of that cluster."""
    with tempfile.TemporaryDirectory() as folder, ApiServer() as server:
        config = Path(folder) / "config"
        address = f"http://127.0.0.1:{server.server_address[1]}"
        document = {
            "clusters": [{"name": "here", "cluster": {"server": address}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        config.write_text(json.dumps(document))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield (
            server,
            {
                **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
                "KUBECONFIG": str(config),
                "PYTHONPATH": str(ROOT / "operator"),
                "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"),
            },
        )
        server.shutdown()


if __name__ == "__main__":
    typer.run(main)
