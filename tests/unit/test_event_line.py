"""Whose object a line of a watch tells of is read right, or left to decoding."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.event_line import Told, told
from tftraining_operator.core.job import parse_job

from tests.unit.builders import IMAGE, a_job

if TYPE_CHECKING:
    from collections.abc import Callable

FORGED = '"metadata":{"name":"x","namespace":"theirs","uid":"u","resourceVersion":"1"}'


def line(change: Callable[[dict[str, Any]], Any] = lambda _pod: None) -> bytes:
    """An event as the API server writes it."""
    pod = desired.pod(parse_job(a_job().raw, datetime.now(UTC)), Role.CHIEF, 0, 0, IMAGE)
    ours = pod["metadata"]
    pod["metadata"] = {"name": ours.pop("name"), "namespace": ours.pop("namespace")}
    pod["metadata"] |= {"uid": "u1", "resourceVersion": "7", "creationTimestamp": None, **ours}
    change(pod)
    event = {"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **pod}}
    return json.dumps(event, separators=(",", ":")).encode()


def test_an_event_tells_its_namespace_job_and_version() -> None:
    assert told(line()) == Told("default", "mnist", "7")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda p: p["metadata"].update(ownerReferences=[]), id="nobody's"),
        pytest.param(
            lambda p: p["metadata"]["ownerReferences"].append(
                p["metadata"]["ownerReferences"][0] | {"name": "other"}
            ),
            id="two owners",
        ),
        pytest.param(
            lambda p: p["metadata"]["ownerReferences"][0].update(controller=False),
            id="an owner that does not control it",
        ),
        pytest.param(lambda p: p["metadata"].pop("resourceVersion"), id="no version"),
    ],
)
def test_what_looks_otherwise_is_decoded(change: Callable[[dict[str, Any]], Any]) -> None:
    assert told(line(change)) is None


def test_what_is_no_object_is_decoded() -> None:
    assert told(b'{"type":"ERROR","object":{"kind":"Status","code":410}}') is None


def test_a_text_that_looks_like_an_object_is_none() -> None:
    def forge(pod: dict[str, Any]) -> None:
        owner = json.dumps(pod["metadata"]["ownerReferences"][0], separators=(",", ":"))
        pod["metadata"]["annotations"] = {"a": FORGED, "b": owner.replace("mnist", "other")}

    assert told(line(forge)) == Told("default", "mnist", "7")
