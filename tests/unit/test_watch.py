"""A watch of what jobs own: no event is lost, whatever ends a stream."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.controller import watch
from tftraining_operator.controller.watch import Watch
from tftraining_operator.reconcile.errors import ApiError, ForbiddenError, TransientError
from tftraining_operator.reconcile.store import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


def event(kind: str, version: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}} | fields}


class Server:
    """Answers watches one after the other, each with events and what ends it."""

    def __init__(self, *streams: list[dict[str, Any] | ApiError]) -> None:
        self.streams = list(streams)
        self.asked: list[str] = []
        self.seconds: list[int] = []
        self.listed = 0
        self.seen: list[tuple[str, str]] = []

    async def watch(
        self,
        _kind: Kind,
        _namespace: str | None,
        resource_version: str,
        seconds: int,
    ) -> AsyncIterator[dict[str, Any]]:
        self.asked.append(resource_version)
        self.seconds.append(seconds)
        if not self.streams:
            await asyncio.Event().wait()
        for each in self.streams.pop(0):
            if isinstance(each, ApiError):
                raise each
            yield each

    async def list_all(self, _kind: Kind, _namespace: str | None) -> str:
        self.listed += 1
        return "100"

    def see(self, _kind: Kind, raw: Mapping[str, Any], kind: str) -> None:
        self.seen.append((kind, raw["metadata"]["resourceVersion"]))

    async def follow(self) -> None:
        """Follow from version 7 until nothing more comes."""
        watch = Watch(self, Kind.POD, None, self.see, self.list_all)
        following = asyncio.create_task(watch.follow("7"))
        async with asyncio.timeout(5):
            while self.streams or len(self.asked) < 2:  # noqa: ASYNC110 - whoever asks last
                await asyncio.sleep(0.001)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def test_a_stream_that_ends_is_continued_from_the_last_event() -> None:
    server = Server([event("ADDED", 8), event("MODIFIED", 9)], [event("DELETED", 11)])
    await server.follow()
    assert server.asked[:3] == ["7", "9", "11"]
    assert server.seen == [("ADDED", "8"), ("MODIFIED", "9"), ("DELETED", "11")]
    assert server.listed == 0


async def test_watches_that_began_together_end_at_different_times() -> None:
    server = Server(*([event("ADDED", number)] for number in range(8, 28)))
    await server.follow()
    assert all(200 <= each <= 300 for each in server.seconds)
    assert len(set(server.seconds)) > 5


async def test_a_bookmark_is_no_event_of_a_pod_but_moves_the_version() -> None:
    server = Server([event("BOOKMARK", 50)])
    await server.follow()
    assert server.asked[:2] == ["7", "50"]
    assert server.seen == []


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(event("ERROR", 0, code=410, message="too old"), id="said by the stream"),
        pytest.param(TransientError("410: too old", status=410), id="instead of a stream"),
        pytest.param(event("ERROR", 0, code=504, message="too large"), id="after a restore"),
    ],
)
async def test_a_version_that_the_server_does_not_have_is_replaced_by_a_listing(
    end: dict[str, Any] | ApiError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.0)
    server = Server([event("ADDED", 8), end])
    await server.follow()
    assert server.asked[:2] == ["7", "100"]
    assert server.listed == 1


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(TransientError("connection reset"), id="a connection that is lost"),
        pytest.param(TransientError("429: too many", status=429), id="a busy server"),
    ],
)
async def test_where_the_server_says_nothing_of_the_version_all_is_not_listed_again(
    end: ApiError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.0)
    server = Server([event("ADDED", 8), end])
    await server.follow()
    assert server.asked[:2] == ["7", "8"]
    assert server.listed == 0


async def test_a_server_that_ends_each_watch_at_once_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.1)
    began = time.monotonic()
    server = Server([event("ADDED", 8)], [event("ADDED", 9)], [], [], [])
    await server.follow()
    assert server.asked[:5] == ["7", "8", "9", "9", "9"]
    assert time.monotonic() - began >= 0.1, "two pauses of 0.05 to 0.15 s at least"


async def test_what_keeps_a_watch_from_its_server_is_told_once_until_an_event_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.0)
    refused = ForbiddenError("may not watch", status=403)
    await Server([refused], [refused], [refused], [event("ADDED", 8), refused]).follow()
    assert [each.getMessage() for each in caplog.records] == [
        "the watch of Pods ended: may not watch"
    ] * 2
