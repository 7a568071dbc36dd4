"""What Prometheus is told over a real socket."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiohttp
import pytest
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.metrics_server import exposed
from tftraining_operator.controller.settings import SettingsError

from tests.unit.builders import a_job
from tests.unit.test_metrics import samples, stored
from tools.ports import free_port


async def scraped(port: int) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        # Nothing stays open: kopf would wait for it.
        assert answer.headers["Connection"] == "close"
        assert answer.content_type == "text/plain"
        return await answer.text()


async def test_metrics_are_served_as_they_are_now_until_the_end() -> None:
    port, metrics = free_port(), Metrics()
    async with exposed(port, metrics):
        assert "tftraining_operator_leader 0.0\n" in await scraped(port)
        metrics.read_leadership(lambda: 1.0)
        assert "tftraining_operator_leader 1.0\n" in await scraped(port)
        assert "_created" not in await scraped(port)
    with pytest.raises(aiohttp.ClientConnectionError):
        await scraped(port)


async def test_a_scrape_of_many_jobs_lets_everything_else_go_on() -> None:
    port, metrics, turns = free_port(), Metrics(), 0
    counted_in: Counter[int] = Counter()

    async def go_on() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def works_in(_namespace: str) -> bool:
        counted_in[turns] += 1
        return True

    store = stored(*(a_job().named(f"job-{index}") for index in range(700)))
    metrics.read_jobs(store, works_in=works_in)
    others = asyncio.create_task(go_on())
    async with exposed(port, metrics):
        found = await scraped(port)
    others.cancel()

    assert (
        'tftraining_jobs{namespace="default",state="New",strategy="ParameterServer"} 700.0' in found
    )
    assert counted_in.total() == 700, "once each"
    assert max(counted_in.values()) <= 100


async def test_the_lag_of_the_event_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tftraining_operator.controller.metrics_server._LAG_SAMPLE_SECONDS", 0.001)
    port, metrics = free_port(), Metrics()
    count = "tftraining_operator_event_loop_lag_seconds_count"
    async with exposed(port, metrics):
        while samples(metrics.registry, count)[()] < 3:
            await scraped(port)


async def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    port = free_port()
    async with exposed(port, Metrics()):
        expected = f"cannot serve metrics on port {port}: .*in use; set TFTRAINING_METRICS_PORT"
        with pytest.raises(SettingsError, match=expected):
            async with exposed(port, Metrics()):
                pytest.fail("it serves where another does")


async def test_with_port_0_nothing_is_served() -> None:
    async with exposed(0, Metrics()):
        with pytest.raises(aiohttp.ClientConnectionError):
            await scraped(free_port())
