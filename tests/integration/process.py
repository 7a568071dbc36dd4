"""The operator as users run it: a process of its own, with a kubeconfig and its environment."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from e2e.waiting import eventually

ROOT = Path(__file__).parents[2]


@dataclass
class Operator:
    """One operator process."""

    kubeconfig: Path
    log: Path
    settings: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _health: str = ""

    def start(self) -> None:
        """Start it and wait until it says that it is well."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._health = f"http://127.0.0.1:{port}/healthz"
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tftraining_operator"],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(ROOT / "operator"),
                    "KUBECONFIG": str(self.kubeconfig),
                    "TFTRAINING_HEALTH": self._health,
                    "TFTRAINING_PROGRESS_SECONDS": "0.2",
                    **self.settings,
                },
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(self.healthy, f"the operator is well; its log: {self.log}", 45)
        except AssertionError:
            self.stop(signal.SIGKILL)
            raise

    def healthy(self) -> bool:
        """Tell whether its health endpoint says yes."""
        try:
            with urlopen(self._health, timeout=2) as answer:  # noqa: S310 - our own loopback URL
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, gently or by SIGKILL."""
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(timeout=20)
        self._process = None

    def logged(self) -> str:
        """Return what it has logged."""
        return self.log.read_text()
