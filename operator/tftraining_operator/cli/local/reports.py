"""Asks chief and evaluator how far they are, from a thread: one that hangs takes its time."""

import http.client
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tftraining_operator.api.keys import Role
from tftraining_operator.cli.local.addresses import HOST
from tftraining_operator.core.progress import Report, parse_report

_SECONDS = 2.0
_PAUSE = 0.5
_LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """Where one pod serves /progress."""

    pod_uid: str
    port: int


class Reports:
    """The newest report of chief and evaluator; what an earlier pod said is forgotten."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._targets: Mapping[Role, Target] = {}
        self._newest: dict[Role, _Said] = {}
        # The main thread's end ends it, whatever it waits for.
        threading.Thread(target=self._poll, name="reports", daemon=True).start()

    def watch(self, targets: Mapping[Role, Target]) -> None:
        """Ask these from now on."""
        with self._lock:
            self._targets = dict(targets)

    def newest(self) -> dict[Role, Report]:
        """Return what the present pods have said."""
        return {role: said.report for role, said in self._valid().items()}

    def examples_per_second(self) -> float | None:
        """Return the training's rate in examples, None if the present chief has not told it."""
        said = self._valid().get(Role.CHIEF)
        return said.examples_per_second if said is not None else None

    def _valid(self) -> dict[Role, "_Said"]:
        with self._lock:
            return {r: s for r, s in self._newest.items() if self._targets.get(r) == s.target}

    def _poll(self) -> None:
        pause = threading.Event()
        while not pause.wait(_PAUSE):
            with self._lock:
                targets = list(self._targets.items())
            for role, target in targets:
                text = _get(target.port)
                if text is None:
                    continue
                report = parse_report(text, self._clock(), target.pod_uid)
                if report is None:
                    continue
                said = _Said(target, report, _examples_per_second(text))
                with self._lock:
                    self._newest[role] = said


@dataclass(frozen=True, slots=True)
class _Said:
    target: Target
    report: Report
    examples_per_second: float | None


class _Rates(BaseModel):
    """What only a person wants to see of a report; the operator does not read it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    examples_per_second: float | None = Field(default=None, alias="examplesPerSecond")


def _examples_per_second(text: bytes) -> float | None:
    try:
        return _Rates.model_validate_json(text).examples_per_second
    except ValidationError:
        return None


def _get(port: int) -> bytes | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/progress")
        return connection.getresponse().read(_LARGEST)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
