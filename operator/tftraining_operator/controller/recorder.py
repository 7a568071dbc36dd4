"""Writes a job's story as events.k8s.io/v1 events. An event that cannot be written is only lost."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from tftraining_operator.api import keys
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core.events import Event
from tftraining_operator.reconcile import errors

logger = logging.getLogger(__name__)

CONTROLLER = f"{keys.GROUP}/operator"
_NOTE_BYTES = 1024


class EventApi(Protocol):
    """The call that the recorder makes."""

    async def create_event(self, body: dict[str, Any]) -> None: ...  # noqa: D102


class Recorder:
    """Turns events of the core into objects of the API."""

    def __init__(self, api: EventApi, instance: str, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._instance = instance[:128]
        self._clock = clock
        self._newest = 0

    async def __call__(self, job: ObjectMeta, events: list[Event]) -> None:
        """Write events, in their order."""
        for event in events:
            level = logging.INFO if event.type == "Normal" else logging.WARNING
            logger.log(level, "%s/%s: %s: %s", job.namespace, job.name, event.reason, event.note)
            try:
                await self._api.create_event(self._body(job, event))
            except errors.ApiError as error:
                logger.warning(
                    "%s/%s: event %s is lost: %s", job.namespace, job.name, event.reason, error
                )
            except asyncio.CancelledError:
                raise

    def _serial(self, now: datetime) -> int:
        """Return a number that grows: kubectl lists a job's events by their names."""
        self._newest = max(self._newest + 1, int(now.timestamp() * 1_000_000))
        return self._newest

    def _body(self, job: ObjectMeta, event: Event) -> dict[str, Any]:
        now = self._clock().astimezone(UTC)
        moment = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{job.name}.{self._serial(now):016x}",
                "namespace": job.namespace,
            },
            "eventTime": moment,
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": _bounded(event.note),
            "regarding": {
                "apiVersion": keys.API_VERSION,
                "kind": keys.KIND,
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
            },
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
        }


def _bounded(note: str) -> str:
    """Cut a note to what the API takes: it counts bytes, though its refusal says characters."""
    if len(note.encode()) <= _NOTE_BYTES:
        return note
    mark = "…"
    kept = note.encode()[: _NOTE_BYTES - len(mark.encode())]
    return kept.decode(errors="ignore") + mark
