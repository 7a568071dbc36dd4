"""Polls /progress of chief and evaluator from a thread: a process that hangs blocks no pass.

Implements `reconcile.protocols.ReportSource` for the one job of a local run.
"""

import http.client
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tftraining_operator.api.keys import Role
from tftraining_operator.core.progress import FRESH, Report, parse_report
from tftraining_operator.reconcile.protocols import Target
from tftraining_operator.reconcile.store import JobKey

from tftraining.cli.local.addresses import HOST

_TIMEOUT_SECONDS = 2.0
_INTERVAL_SECONDS = 0.5
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Answer:
    target: Target
    received: float
    """By the monotonic clock, which is never set."""
    report: Report
    examples_per_second: float | None


class LocalReports:
    """The newest reports of the present chief and evaluator."""

    def __init__(self, ports: Mapping[Role, int], clock: Callable[[], datetime]) -> None:
        """Poll until closed; `ports` are where each role serves /progress on this computer."""
        self._ports = ports
        self._clock = clock
        self._lock = threading.Lock()
        self._targets: Mapping[Role, Target] = {}
        self._answers: dict[Role, _Answer] = {}
        self._silent: set[Role] = set()
        """Roles that did not answer their last request."""
        self._outdated: set[Role] = set()
        """Of these, whose last report was said to count no longer."""
        self._changed = False
        self._closed = threading.Event()
        # A daemon, so that a poll that hangs does not delay the end of the process.
        threading.Thread(target=self._run, name="reports", daemon=True).start()

    def watch(self, _key: JobKey, targets: Mapping[Role, Target]) -> None:
        """Poll these pods from now on, and forget the reports of all others."""
        with self._lock:
            self._targets = dict(targets)

    def forget(self, _key: JobKey) -> None:
        """Poll no pod from now on."""
        with self._lock:
            self._targets = {}

    def reports(self, _key: JobKey) -> dict[Role, Report]:
        """Return the newest reports of the pods that are polled."""
        now, since = self._clock(), time.monotonic()
        return {
            role: answer.report.model_copy(
                update={"received": now - timedelta(seconds=since - answer.received)}
            )
            for role, answer in self._current().items()
        }

    def count(self) -> int:
        """Return 1: a local run has one job."""
        return 1

    def take_changed(self) -> bool:
        """Return whether a report has brought news since the last call."""
        with self._lock:
            changed, self._changed = self._changed, False
        return changed

    def examples_per_second(self) -> float | None:
        """Return the training's rate in examples, None if the present chief reports none."""
        answer = self._current().get(Role.CHIEF)
        return answer.examples_per_second if answer is not None else None

    def close(self) -> None:
        """Poll no longer."""
        self._closed.set()

    def _current(self) -> dict[Role, _Answer]:
        with self._lock:
            return {
                role: answer
                for role, answer in self._answers.items()
                if self._targets.get(role) == answer.target
            }

    def _run(self) -> None:
        while not self._closed.wait(_INTERVAL_SECONDS):
            with self._lock:
                targets = list(self._targets.items())
            for role, target in targets:
                self._poll(role, target)

    def _poll(self, role: Role, target: Target) -> None:
        text = _get(self._ports[role])
        report = parse_report(text, pod_uid=target.pod_uid) if text is not None else None
        if text is None or report is None:
            self._miss(role)
            return
        answer = _Answer(target, time.monotonic(), report, _examples_per_second(text))
        with self._lock:
            before, self._answers[role] = self._answers.get(role), answer
            self._changed |= (
                before is None
                # After a silence even the same report is news: the pod is seen again.
                or role in self._silent
                or before.target != target
                or not before.report.says_the_same(report, target.stall_timeout)
            )
        self._silent.discard(role)
        self._outdated.discard(role)

    def _miss(self, role: Role) -> None:
        """Tell once of a report that counts no longer: nothing else would."""
        self._silent.add(role)
        known = self._answers.get(role)
        old = known is not None and time.monotonic() - known.received > FRESH.total_seconds()
        if old and role not in self._outdated:
            self._outdated.add(role)
            with self._lock:
                self._changed = True


class _Rates(BaseModel):
    """The fields of a report that only a person wants to see; the operator does not read them."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    examples_per_second: float | None = Field(default=None, alias="examplesPerSecond")


def _examples_per_second(text: bytes) -> float | None:
    try:
        return _Rates.model_validate_json(text).examples_per_second
    except ValidationError:
        return None


def _get(port: int) -> bytes | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/progress")
        response = connection.getresponse()
        text = response.read(_MAX_BYTES)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return text if response.status == http.client.OK else None
