"""Following Kueue's Workloads: an API that may be absent, and come and go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest
from tftraining_operator.api import keys
from tftraining_operator.controller import watch
from tftraining_operator.controller.kubernetes_api import KubernetesApi, Listing
from tftraining_operator.controller.workloads import Workloads
from tftraining_operator.core.schedulers.offer import Availability
from tftraining_operator.reconcile.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    TransientError,
)
from tftraining_operator.reconcile.store import JobKey, Kind, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = JobKey("team-a", "mnist")


def workload(version: int) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": KEY.namespace,
            "name": "w",
            "uid": "uid-w",
            "resourceVersion": str(version),
            "labels": {keys.LABEL_JOB: KEY.name},
            "ownerReferences": [
                {
                    "apiVersion": keys.API_VERSION,
                    "kind": keys.KIND,
                    "name": KEY.name,
                    "controller": True,
                }
            ],
        }
    }


class Kueue:
    """Answers listings and watches in turn, and the last answer from then on."""

    def __init__(
        self,
        listings: list[list[dict[str, Any]] | ApiError],
        watches: list[list[dict[str, Any] | ApiError]],
    ) -> None:
        self.listings, self.watches = listings, watches
        self.listed = self.watched = 0
        self.store = Store()
        self.looked_at: list[JobKey] = []
        self.workloads = Workloads(
            cast("KubernetesApi", self), self.store, None, self.looked_at.append, lambda: None
        )

    async def list(self, _kind: Kind, _namespace: str | None) -> Listing:
        answer = self.listings[min(self.listed, len(self.listings) - 1)]
        self.listed += 1
        if isinstance(answer, ApiError):
            raise answer
        return Listing(answer, "100")

    async def watch(
        self, _kind: Kind, _namespace: str | None, _version: str, _seconds: int
    ) -> AsyncIterator[dict[str, Any]]:
        answers = self.watches[min(self.watched, len(self.watches) - 1)]
        self.watched += 1
        for each in answers:
            if isinstance(each, ApiError):
                raise each
            yield each
        if not answers:
            await asyncio.Event().wait()

    async def follow(self, *, watched: int) -> None:
        """Follow the Workloads until so many watches were begun."""
        following = asyncio.create_task(self.workloads.follow(0.0))
        async with asyncio.timeout(5):
            while self.watched < watched:  # noqa: ASYNC110 - counted by the fake
                await asyncio.sleep(0.001)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.0)


async def test_a_watch_that_is_forbidden_for_days_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await Kueue([[]], [[ForbiddenError("may not watch", status=403)]]).follow(watched=4)
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    told = [each.getMessage() for each in warnings]
    assert told == ["the watch of Workloads ended: may not watch"]


async def test_kueue_that_does_not_answer_is_not_said_to_be_missing() -> None:
    away = TransientError("500: conversion webhook for kueue.x-k8s.io failed", status=500)
    kueue = Kueue([away, [], away], [])
    assert await kueue.workloads.list() is None
    assert kueue.workloads.availability is Availability.SILENT
    for _ in range(2):
        await kueue.workloads.list()
        assert kueue.workloads.availability is Availability.USABLE


async def test_what_a_watch_tells_is_taken_in() -> None:
    added = {"type": "ADDED", "object": workload(101)}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "102"}}}
    deleted = {"type": "DELETED", "object": workload(103)}
    kueue = Kueue([[]], [[added, bookmark], []])
    await kueue.follow(watched=2)
    assert kueue.store.children(Kind.WORKLOAD, KEY)
    kueue = Kueue([[]], [[added, bookmark], [deleted], []])
    await kueue.follow(watched=3)
    assert not kueue.store.children(Kind.WORKLOAD, KEY)
    assert kueue.looked_at == [KEY, KEY]


async def test_workloads_are_followed_once_kueue_is_there_and_forgotten_once_it_is_gone() -> None:
    absent = NotFoundError("no such resource", status=404)
    kueue = Kueue([absent, absent, [workload(99)], absent], [[absent]])
    following = asyncio.create_task(kueue.workloads.follow(0.0))
    async with asyncio.timeout(5):
        while kueue.listed < 4:  # noqa: ASYNC110 - counted by the fake
            await asyncio.sleep(0.001)
    following.cancel()
    assert kueue.looked_at == [KEY, KEY]
    assert not kueue.store.children(Kind.WORKLOAD, KEY)
    assert kueue.workloads.availability is Availability.MISSING
