"""The operator as users run it: a process of its own, with a kubeconfig and its environment."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tools.ports import free_port
from tools.waiting import eventually

ROOT = Path(__file__).parents[2]

_logs: set[Path] = set()
"""Of all operators that were launched."""


def logged_since(moment: float) -> list[str]:
    """Return how the logs end that were written to since a moment (s since 1970)."""
    logs = [log for log in sorted(_logs) if log.exists() and log.stat().st_mtime >= moment]
    return [f"{log.name} ends: {log.read_text()[-3000:]}" for log in logs]


@dataclass
class Operator:
    """One operator process."""

    kubeconfig: Path
    log: Path
    settings: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _probes: str = ""
    _metrics: str = ""

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self.launch()
        try:
            eventually(self.ready, "the operator is ready", 45)
        except AssertionError as error:
            self.stop(signal.SIGKILL)
            raise AssertionError(f"{error}; its log ends: {self.logged()[-3000:]}") from error

    def launch(self) -> None:
        """Start it."""
        port = free_port()
        self._probes = f"http://127.0.0.1:{port}"
        metrics_port = free_port()
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        _logs.add(self.log)
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tftraining_operator"],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(ROOT / "operator"),
                    "KUBECONFIG": str(self.kubeconfig),
                    "TFTRAINING_HEALTH": f"{self._probes}/healthz",
                    "TFTRAINING_METRICS_PORT": str(metrics_port),
                    "TFTRAINING_PROGRESS_SECONDS": "0.2",
                    **self.settings,
                },
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def ready(self) -> bool:
        """Tell whether it works or stands by."""
        return self._says_yes("/readyz")

    def healthy(self) -> bool:
        """Tell whether it wants to go on living."""
        return self._says_yes("/healthz")

    def metric(self, name: str, **labels: str) -> float:
        """Scrape it; return the sum of a metric's samples that have these labels."""
        with urlopen(self._metrics, timeout=5) as answer:  # noqa: S310 - loopback
            families = text_string_to_metric_families(answer.read().decode())
            return sum(
                sample.value
                for family in families
                for sample in family.samples
                if sample.name == name and labels.items() <= sample.labels.items()
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, gently or by SIGKILL; one that does not end is killed. Raises TimeoutExpired."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def runs(self) -> bool:
        """Tell whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        """Stop it in the middle of whatever it does; it does not notice."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def wait(self, seconds: float) -> int:
        """Wait until it has ended by itself; return its exit code."""
        assert self._process is not None
        code = self._process.wait(timeout=seconds)
        self._process = None
        return code

    def logged(self) -> str:
        """Return what it has logged."""
        return self.log.read_text()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _says_yes(self, path: str) -> bool:
        try:
            with urlopen(f"{self._probes}{path}", timeout=2) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False
