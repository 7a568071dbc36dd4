"""What a kubelet is told over a real socket."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from tftraining_operator.controller.health import served
from tftraining_operator.controller.settings import Settings

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


async def test_by_default_a_kubelet_is_answered_at_addresses_of_both_families() -> None:
    port = free_port()
    url = Settings().health.replace(":8080/", f":{port}/")
    async with served(url, alive=lambda: None, ready=lambda: None):
        assert await ask(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        if not _has_ipv6():
            pytest.skip("this machine has no address of IPv6")
        assert await ask(f"http://[::1]:{port}/healthz") == (200, "ok\n")


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def test_a_port_that_is_taken_ends_the_start() -> None:
    base = a_free_address()
    url = f"{base}/healthz"
    async with served(url, alive=lambda: None, ready=lambda: None):
        with pytest.raises(OSError, match="address already in use"):
            async with served(url, alive=lambda: None, ready=lambda: None):
                pytest.fail("it serves where another does")
        assert await ask(url) == (200, "ok\n")
