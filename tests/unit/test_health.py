"""What a kubelet is told over a real socket."""

from __future__ import annotations

import aiohttp
import pytest
from tftraining_operator.controller.health import served

from tools.ports import free_port


def a_free_address() -> str:
    return f"http://127.0.0.1:{free_port()}"


async def ask(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        # Nothing stays open: kopf would wait for it.
        assert answer.headers["Connection"] == "close"
        return answer.status, await answer.text()


async def test_each_probe_is_answered_by_its_own_check_as_it_is_now() -> None:
    troubles: dict[str, str | None] = {"alive": None, "ready": "not listed yet"}
    base = a_free_address()
    checks = {"alive": lambda: troubles["alive"], "ready": lambda: troubles["ready"]}
    async with served(f"{base}/healthz", **checks):
        assert await ask(f"{base}/healthz") == (200, "ok\n")
        assert await ask(f"{base}/readyz") == (503, "not listed yet\n")
        troubles.update(alive="stuck", ready=None)
        assert await ask(f"{base}/healthz") == (503, "stuck\n")
        assert await ask(f"{base}/readyz") == (200, "ok\n")
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(f"{base}/healthz")


async def test_a_port_that_is_taken_ends_the_start() -> None:
    base = a_free_address()
    url = f"{base}/healthz"
    async with served(url, alive=lambda: None, ready=lambda: None):
        with pytest.raises(OSError, match="address already in use"):
            async with served(url, alive=lambda: None, ready=lambda: None):
                pytest.fail("it serves where another does")
        assert await ask(url) == (200, "ok\n")
