"""Spans of passes and calls, as a collector receives them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tftraining_operator.controller import main
from tftraining_operator.controller.kubernetes_api import Call
from tftraining_operator.controller.settings import Settings, SettingsError
from tftraining_operator.reconcile.errors import TransientError
from tftraining_operator.reconcile.store import JobKey

pytest.importorskip(
    "opentelemetry.sdk", reason="OpenTelemetry is not installed: tftraining[traces]"
)

from tftraining_operator.controller.tracing import Tracing, tracing

from tests.otlp import Receiver, receiving

KEY = JobKey("research", "mnist")
JOB = {"metadata": {"uid": "uid-1"}, "status": {"attempt": 2}}
CREATED = Call("create", "pods", "201", 0.25)
REFUSED = Call("create", "pods", "403", 0.01)
MISSING = Call("get", "pods", "404", 0.01)
ROOT = Path(__file__).parents[2]
CLIENT = 3
"""SPAN_KIND_CLIENT."""


async def passed(*calls: Call, error: Exception | None = None) -> Receiver:
    """Make one pass with some calls; return what the collector got."""
    with receiving() as receiver:
        async with tracing(receiver.url) as found:
            await one_pass(found, *calls, error=error)
        return receiver


async def one_pass(found: Tracing, *calls: Call, error: Exception | None = None) -> None:
    async def handle(_key: JobKey) -> float | None:
        for call in calls:
            found.saw_call(call)
        if error is not None:
            raise error
        return 5.0

    handle = found.traced(handle, {KEY: JOB}.get)
    if error is None:
        assert await handle(KEY) == 5.0
    else:
        with pytest.raises(type(error)):
            await handle(KEY)


async def test_a_pass_is_a_span_with_its_calls_below() -> None:
    receiver = await passed(CREATED, MISSING, REFUSED)
    (root,) = receiver.named("reconcile")
    about = {"namespace": "research", "job": "mnist", "uid": "uid-1", "attempt": 2}
    assert root.attributes == about | {"result": "success"}
    assert (root.parent, root.failed) == (b"", False)
    created, missing, refused = receiver.children(root)
    assert (created.name, created.kind) == ("create pods", CLIENT)
    assert created.attributes == {"verb": "create", "resource": "pods", "code": "201"}
    assert created.seconds == pytest.approx(0.25, abs=1e-6)
    assert [span.failed for span in (created, missing, refused)] == [False, False, True]
    assert receiver.resource["service.name"] == "tftraining-operator"


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (TransientError("GET /api/v1/pods: timed out"), "api_error"),
        (ValueError("no such\nstatus"), "error"),
    ],
)
async def test_a_pass_that_fails_says_why(error: Exception, result: str) -> None:
    receiver = await passed(error=error)
    (root,) = receiver.spans
    assert root.failed
    assert root.message == str(error).replace("\n", " ")
    assert root.attributes["result"] == result


async def test_calls_outside_of_passes_have_no_span() -> None:
    with receiving() as receiver:
        async with tracing(receiver.url) as found:
            found.saw_call(Call("update", "leases", "200", 0.01))
    assert receiver.spans == []


async def test_the_sampler_is_opentelemetrys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    assert (await passed(CREATED)).spans == []


async def test_a_collector_that_does_not_answer_stops_no_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    async with tracing("http://127.0.0.1:1/v1/traces") as found:
        await one_pass(found, CREATED)


def test_without_an_endpoint_opentelemetry_is_not_imported() -> None:
    program = (
        "import sys, tftraining_operator.__main__;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.strip() == "[]"


async def test_where_it_is_not_installed_the_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tftraining_operator.controller.tracing", None)
    settings = Settings(traces_endpoint="http://collector:4318/v1/traces")
    with pytest.raises(SettingsError, match=r"pip install 'tftraining\[operator,traces\]'"):
        main._tracing(settings)
