"""What of an event reaches the API, and what the operator's own log: no tenant forges a line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.controller.recorder import Recorder
from tftraining_operator.core.events import Action, Event, EventType
from tftraining_operator.reconcile import errors

from tests.unit.builders import NOW

if TYPE_CHECKING:
    from tests.unit.builders import Raw

JOB = ObjectMeta(namespace="team-a", name="mnist", uid="j1")
FORGED = "exited with 1\n2026-01-02 ERROR team-b/other: forged\x1b[2K\x1b[1A"


class Api:
    """Keeps events, or fails."""

    def __init__(self, error: errors.ApiError | None = None) -> None:
        self.bodies: list[Raw] = []
        self.error = error

    async def create_event(self, body: Raw) -> None:
        if self.error is not None:
            raise self.error
        self.bodies.append(body)


async def record(event: Event, api: Api) -> None:
    await Recorder(api, "operator-0", lambda: NOW)(JOB, [event])


def an_event(note: str, **fields: str) -> Event:
    return Event("PodFailed", note, Action.OBSERVE, EventType.WARNING, **fields)


@pytest.mark.parametrize(
    ("note", "details", "logged"),
    [
        pytest.param("training", "", "training", id="a plain note"),
        pytest.param(FORGED, "", "exited with 1", id="a note with a forged line and escapes"),
        pytest.param("\n \n  exited\x07\n", "", "exited", id="a note that begins with empty lines"),
        pytest.param("exited", "Traceback\nValueError: my data", "exited", id="the end of a log"),
        pytest.param("x" * 5000, "", "x" * 299 + "…", id="a note without end"),
    ],
)
async def test_the_log_gets_one_bounded_line_of_an_event(
    note: str, details: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await record(an_event(note, details=details), Api())
    assert caplog.messages == [f"team-a/mnist: PodFailed: {logged}"]


@pytest.mark.parametrize(
    ("note", "details", "stored"),
    [
        pytest.param("training", "", "training", id="a plain note"),
        pytest.param(
            "exited with 1",
            "\x1b[31mTraceback\x1b[0m\r\n  File x\n\tValueError\x00",
            "exited with 1\nTraceback\n  File x\n\tValueError",
            id="details keep their lines and tabs",
        ),
        pytest.param(FORGED[:13] + "\x1b[2K", "", "exited with 1", id="no escape sequences"),
    ],
)
async def test_the_api_gets_the_whole_printable_text(note: str, details: str, stored: str) -> None:
    api = Api()
    await record(an_event(note, details=details), api)
    assert [body["note"] for body in api.bodies] == [stored]


async def test_a_long_note_is_cut_to_what_the_api_takes() -> None:
    api = Api()
    await record(an_event("exited", details="火" * 1000), api)
    note = api.bodies[0]["note"]
    assert len(note.encode()) <= 1024
    assert note.startswith("exited\n火")
    assert note.endswith("火…")


@pytest.mark.parametrize(
    ("pod", "related"),
    [
        pytest.param("", None, id="about the job"),
        pytest.param(
            "mnist-worker-0",
            {"apiVersion": "v1", "kind": "Pod", "name": "mnist-worker-0", "namespace": "team-a"},
            id="about a pod of it",
        ),
    ],
)
async def test_an_event_names_the_pod_that_it_is_about(
    pod: str, related: dict[str, str] | None
) -> None:
    api = Api()
    await record(an_event("failed", pod=pod), api)
    assert api.bodies[0].get("related") == related
    assert api.bodies[0]["regarding"]["uid"] == "j1"


async def test_an_event_that_cannot_be_recorded_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await record(an_event("failed"), Api(errors.ForbiddenError("denied by\n\x1b[31mpolicy")))
    assert caplog.messages[1:] == [
        "team-a/mnist: failed to record event PodFailed: denied by policy"
    ]


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        pytest.param([errors.TransientError("busy", status=429)] * 2, 3, id="a busy server"),
        pytest.param(
            [errors.TransientError("late", status=504), errors.AlreadyExistsError("exists")],
            2,
            id="one that had created it",
        ),
        pytest.param([errors.TransientError("no route to host")], 1, id="no server"),
        pytest.param([errors.ForbiddenError("no", status=403)], 1, id="one that refuses it"),
        pytest.param([errors.TransientError("busy", status=429)] * 9, 5, id="no end"),
    ],
)
async def test_an_event_is_tried_again_where_the_server_only_has_no_time(
    failures: list[errors.ApiError], tries: int
) -> None:
    tried = []
    left = list(failures)

    class Busy(Api):
        async def create_event(self, body: Raw) -> None:
            tried.append(body["metadata"]["name"])
            if left:
                raise left.pop(0)

    await record(an_event("exited"), Busy())
    assert tried == tried[:1] * tries, "by one name"
