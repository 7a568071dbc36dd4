"""Records a job's events as events.k8s.io/v1, and in the operator's log.

Called by the pass after its status is written; an event that cannot be recorded stops nothing. The
log is the platform's: of what a tenant's container wrote it gets no more than one line.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from tftraining_operator.api import keys
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.controller.logs import about
from tftraining_operator.core.events import Event, EventType
from tftraining_operator.core.text import one_line, printable
from tftraining_operator.reconcile import errors

logger = logging.getLogger(__name__)

CONTROLLER = f"{keys.GROUP}/operator"
_NOTE_BYTES = 1024
_TRIES = 5
"""Where one request in ten fails, three would still lose an event of a thousand."""
_REASON_LENGTH = 128


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
        """Record events, in their order."""
        for event in events:
            level = logging.INFO if event.type == EventType.NORMAL else logging.WARNING
            reason = _reason(event)
            note = _first_line(event.note)
            with about(**_pod_fields(job, event)):
                logger.log(level, "%s/%s: %s: %s", job.namespace, job.name, reason, note)
            try:
                await self._create(self._body(job, event))
            except errors.ApiError as error:
                logger.warning(
                    "%s/%s: failed to record event %s: %s",
                    job.namespace,
                    job.name,
                    reason,
                    one_line(error.message),
                )

    async def _create(self, body: dict[str, Any]) -> None:
        """Create an event, again if the server was busy: the next call waits as long as it asks."""
        for left in reversed(range(_TRIES)):
            try:
                return await self._api.create_event(body)
            except errors.AlreadyExistsError:
                return None  # the answer to the first try was lost
            except errors.TransientError as error:
                if not left or not error.status:
                    raise
        return None

    def _serial(self, now: datetime) -> int:
        """Return a number that grows: kubectl lists a job's events by their names."""
        self._newest = max(self._newest + 1, int(now.timestamp() * 1_000_000))
        return self._newest

    def _body(self, job: ObjectMeta, event: Event) -> dict[str, Any]:
        now = self._clock().astimezone(UTC)
        moment = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        pod = {"apiVersion": "v1", "kind": "Pod", "name": event.pod, "namespace": job.namespace}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{job.name}.{self._serial(now):016x}",
                "namespace": job.namespace,
            },
            "eventTime": moment,
            "type": event.type,
            "reason": _reason(event),
            "action": event.action,
            "note": _bounded(printable(f"{event.note}\n{event.details}").strip()),
            "regarding": {
                "apiVersion": keys.API_VERSION,
                "kind": keys.KIND,
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
            },
            **({"related": pod} if event.pod else {}),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
        }


def _pod_fields(job: ObjectMeta, event: Event) -> dict[str, str]:
    """Return the fields of the log for the pod that an event is about."""
    if not event.pod:
        return {}
    role, _, _index = event.pod.removeprefix(f"{job.name}-").rpartition("-")
    return {"pod": event.pod, "role": role}


def _reason(event: Event) -> str:
    # It may be a kubelet's word, which nobody has bounded.
    return one_line(event.reason, _REASON_LENGTH)


def _first_line(note: str) -> str:
    return one_line(printable(note).strip().partition("\n")[0])


def _bounded(note: str) -> str:
    """Cut a note to what the API takes: it counts bytes, though its refusal says characters."""
    if len(note.encode()) <= _NOTE_BYTES:
        return note
    mark = "…"
    kept = note.encode()[: _NOTE_BYTES - len(mark.encode())]
    return kept.decode(errors="ignore") + mark
