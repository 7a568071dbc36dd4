"""The operator's events, as the API takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.controller.recorder import Recorder
from tftraining_operator.core.events import Action, Event, EventType
from tftraining_operator.reconcile import errors

from tests.unit.builders import NOW

if TYPE_CHECKING:
    from tftraining_operator.core.job import Job

    from tests.protocol.servers import Api, Server
    from tests.unit.builders import Raw


class Kept:
    """Keeps the bodies that a recorder would send."""

    def __init__(self) -> None:
        self.bodies: list[Raw] = []

    async def create_event(self, body: Raw) -> None:
        self.bodies.append(body)


async def a_body(job: Job, note: str = "training") -> Raw:
    kept = Kept()
    await Recorder(kept, "test", lambda: NOW)(job.meta, [Event("Running", note, Action.OBSERVE)])
    return kept.bodies[0]


async def test_what_is_recorded_is_stored_about_the_job(api: Api, server: Server, job: Job) -> None:
    worker = "mnist-worker-0"
    events = [
        Event("Created", "created 3 pods", Action.CREATE),
        Event("Failed", "no", Action.FINISH, EventType.WARNING, worker, "Traceback\n\tFile x"),
    ]
    await Recorder(api, "test", lambda: NOW)(job.meta, events)
    found = sorted(server.events(), key=lambda event: str(event["metadata"]["name"]))
    assert [(e["reason"], e["note"], e["action"], e["type"]) for e in found] == [
        ("Created", "created 3 pods", "Create", "Normal"),
        ("Failed", "no\nTraceback\n\tFile x", "Finish", "Warning"),
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "name": worker, "namespace": server.namespace}
    assert [event.get("related") for event in found] == [None, pod]
    for event in found:
        assert event["regarding"]["uid"] == job.uid
        assert event["regarding"]["kind"] == keys.KIND
        assert event["reportingInstance"] == "test"


@pytest.mark.parametrize("letter", ["a", "ü", "火", "🔥"])
async def test_the_longest_note_in_any_alphabet_is_stored(
    api: Api, server: Server, job: Job, letter: str
) -> None:
    note = "x" + letter * 3000
    await Recorder(api, "t" * 300, lambda: NOW)(job.meta, [Event("Failed", note, Action.FINISH)])
    (found,) = server.events()
    assert found["note"].startswith("x" + letter * 200)


async def test_a_note_that_is_too_long_is_refused(api: Api, server: Server, job: Job) -> None:
    for note in ("x" * 1025, "ü" * 513):
        body = await a_body(job)
        with pytest.raises(errors.InvalidObjectError):
            await api.create_event(body | {"note": note})
    assert server.events() == []


async def test_an_event_is_stored_once(api: Api, server: Server, job: Job) -> None:
    body = await a_body(job)
    await api.create_event(body)
    with pytest.raises(errors.AlreadyExistsError):
        await api.create_event(body)
    assert len(server.events()) == 1


async def test_a_namespace_that_is_being_deleted_takes_no_event(
    api: Api, server: Server, job: Job
) -> None:
    server.close()
    with pytest.raises(errors.ForbiddenError):
        await api.create_event(await a_body(job))
