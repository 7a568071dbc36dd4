"""Reports of local processes: who is polled, and what counts as a report."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from tftraining.cli.local import reports as module
from tftraining.cli.local.reports import LocalReports
from tftraining_operator.api.keys import Role
from tftraining_operator.reconcile.protocols import Target
from tftraining_operator.reconcile.store import JobKey

from tests.unit.builders import NOW
from tests.unit.fakes import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = JobKey("default", "mnist")
URL = "http://127.0.0.1:8471/progress"
FIRST, SECOND = Target("uid-1", URL), Target("uid-2", URL)


class Server:
    """Serves /progress as a chief does."""

    def __init__(self) -> None:
        self.answers = 0
        self.code = 200
        self.report: dict[str, Any] = {"step": 1, "examplesPerSecond": 25.5}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(outer.code)
                self.end_headers()
                self.wfile.write(json.dumps(outer.report).encode())
                outer.answers += 1

            def log_message(self, *_args: object) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)

    @contextmanager
    def serving(self) -> Iterator[Server]:
        thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.http.shutdown()
            thread.join()
            self.http.server_close()

    def next_answers(self) -> None:
        """Wait until another report was asked for and taken in."""
        # One more, as the newest may still be on its way.
        wanted = self.answers + 2
        until(lambda: self.answers >= wanted)


def until(wanted: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server().serving() as found:
        yield found


@pytest.fixture
def reports(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalReports]:
    monkeypatch.setattr(module, "_INTERVAL_SECONDS", 0.01)
    found = LocalReports({Role.CHIEF: server.http.server_port}, Clock())
    yield found
    found.close()


def step(reports: LocalReports) -> int | None:
    found = reports.reports(KEY).get(Role.CHIEF)
    return found.step if found is not None else None


def test_the_newest_report_of_the_watched_chief_is_known(
    server: Server, reports: LocalReports
) -> None:
    assert step(reports) is None
    reports.watch(KEY, {Role.CHIEF: FIRST})
    until(lambda: step(reports) == 1)
    assert reports.examples_per_second() == 25.5
    server.report = {"step": 2}
    until(lambda: step(reports) == 2)
    assert reports.examples_per_second() is None


def test_a_report_that_counts_no_longer_asks_for_a_pass_once(
    server: Server, reports: LocalReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH", timedelta(seconds=1))
    reports.watch(KEY, {Role.CHIEF: FIRST})
    until(reports.take_changed)
    server.code = 500
    server.next_answers()
    assert not reports.take_changed()
    until(reports.take_changed)
    server.next_answers()
    assert not reports.take_changed()


def test_only_a_report_that_brings_news_asks_for_a_pass(
    server: Server, reports: LocalReports
) -> None:
    reports.watch(KEY, {Role.CHIEF: FIRST})
    until(lambda: step(reports) == 1)
    assert reports.take_changed()
    server.report |= {"secondsSinceStep": 3.5}
    server.next_answers()
    assert not reports.take_changed()
    server.report = {"step": 2}
    until(reports.take_changed)


def test_the_report_of_an_earlier_pod_is_forgotten(server: Server, reports: LocalReports) -> None:
    reports.watch(KEY, {Role.CHIEF: FIRST})
    until(lambda: step(reports) == 1)
    server.code = 503
    server.next_answers()
    reports.watch(KEY, {Role.CHIEF: SECOND})
    assert step(reports) is None
    server.code = 200
    until(lambda: step(reports) == 1)
    reports.forget(KEY)
    assert step(reports) is None


def test_a_report_names_its_pod_and_when_it_came(server: Server, reports: LocalReports) -> None:
    server.report = {"step": 1, "podUid": "another", "received": "2020-01-01T00:00:00Z"}
    reports.watch(KEY, {Role.CHIEF: FIRST})
    until(lambda: step(reports) == 1)
    report = reports.reports(KEY)[Role.CHIEF]
    assert report.pod_uid == "uid-1"
    assert report.received is not None
    assert timedelta() <= NOW - report.received < timedelta(seconds=10)


def test_after_a_silence_the_same_report_is_news(server: Server, reports: LocalReports) -> None:
    reports.watch(KEY, {Role.CHIEF: FIRST})
    until(lambda: step(reports) == 1)
    assert reports.take_changed()
    server.code = 503
    server.next_answers()
    assert not reports.take_changed()
    server.code = 200
    until(reports.take_changed)


def test_a_body_sent_with_an_error_is_no_report(server: Server, reports: LocalReports) -> None:
    server.code = 500
    reports.watch(KEY, {Role.CHIEF: FIRST})
    server.next_answers()
    assert step(reports) is None
