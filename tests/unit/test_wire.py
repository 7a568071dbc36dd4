"""What of the API server's JSON arrives, and what does not."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.controller import wire
from tftraining_operator.core import desired, slim
from tftraining_operator.core.observed import observe
from tftraining_operator.reconcile.store import Kind, Store

from tests.unit.builders import IMAGE, NOW, Raw, a_job

if TYPE_CHECKING:
    from collections.abc import Callable

METADATA = {"uid": "u1", "resourceVersion": "7", "managedFields": [{"manager": "kubelet"}]}


def objects() -> dict[Kind, Raw]:
    job = a_job().with_workers(1).build()
    found = {
        Kind.POD: desired.pod(job, Role.CHIEF, 0, 0, IMAGE),
        Kind.SERVICE: desired.service(job),
        Kind.NETWORK_POLICY: {"metadata": {"name": "mnist"}, "spec": {"podSelector": {}}},
        Kind.JOB: {"metadata": {"name": "mnist"}, "spec": {"worker": {}}, "status": {}},
    }
    for raw in found.values():
        raw["metadata"] |= METADATA
    return found


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (Kind.POD, slim.pod),
        (Kind.SERVICE, slim.service),
        (Kind.NETWORK_POLICY, dict),
        (Kind.JOB, slim.job),
    ],
)
def test_lists_and_watches_bring_what_is_read_of_an_object(
    kind: Kind, read: Callable[[Raw], Raw]
) -> None:
    raw = objects()[kind]
    document = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [raw]}
    (listed, *more) = wire.decode_list(wire.encode(document))
    assert (wire.decode_objects(kind, listed), more) == ([read(raw)], ["9", "more"])
    last = {"metadata": {"resourceVersion": "9"}, "items": []}
    assert wire.decode_list(wire.encode(last)) == ([], "9", "")
    assert wire.is_cut(kind) == (read is not dict)
    for what in ("ADDED", "MODIFIED", "DELETED"):
        line = wire.encode({"type": what, "object": raw})
        assert wire.decode_event(kind, line) == {"type": what, "object": read(raw)}


@pytest.mark.parametrize("kind", list(Kind))
def test_the_end_and_the_age_of_a_watch_arrive_whole(kind: Kind) -> None:
    for event in (
        {"type": "ERROR", "object": {"kind": "Status", "message": "too old", "code": 410}},
        {"type": "BOOKMARK", "object": {"kind": kind.value, "metadata": {"resourceVersion": "9"}}},
    ):
        assert wire.decode_event(kind, wire.encode(event)) == event


def test_what_is_written_is_read_as_it_was() -> None:
    for raw in objects().values():
        assert wire.decode(wire.encode(raw)) == raw == json.loads(wire.encode(raw))


def test_a_null_where_a_list_or_an_object_could_be_is_no_error() -> None:
    raw = objects()[Kind.POD]
    raw["metadata"] |= {"annotations": None, "ownerReferences": None}
    raw["spec"] |= {"volumes": None, "initContainers": None}
    raw["spec"]["containers"][0] |= {"env": None, "resources": None}
    raw["status"] = {"conditions": None, "containerStatuses": None}
    line = wire.encode({"type": "ADDED", "object": raw})
    found = wire.decode_event(Kind.POD, line)["object"]
    assert found == slim.pod(raw)
    assert Store().put(Kind.POD, found) is not None
    job = a_job().with_workers(1).build()
    assert observe(job, [found], [], NOW) == observe(job, [raw], [], NOW)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"{", b'"\xff"', b'{"type": 1}', b'{"items": [{}]}']
)
def test_what_the_api_server_would_not_say_is_an_error(text: bytes) -> None:
    for decode in (wire.decode_list, partial(wire.decode_event, Kind.POD)):
        with pytest.raises(ValueError):  # noqa: PT011 - in the words of the library
            decode(text)


def test_an_object_of_a_list_that_lacks_what_all_have_is_an_error() -> None:
    text = b'{"metadata": {"resourceVersion": "9"}, "items": [{}]}'
    with pytest.raises(ValueError, match="metadata"):
        wire.decode_objects(Kind.POD, wire.decode_list(text)[0])


def test_objects_are_decoded_by_their_bytes_and_a_large_one_alone() -> None:
    sizes = [100_000, 100_000, 100_000, 300_000, 300_000, 1]
    text = wire.encode(
        {"metadata": {"resourceVersion": "9"}, "items": ["x" * size for size in sizes]}
    )
    found = [len(each) for each in wire.portions(wire.decode_list(text)[0])]
    assert found == [2, 1, 1, 1, 1]
    assert list(wire.portions([])) == [[]]
