"""JSON of the API server, both ways; kubernetes_api.py calls it.

Of jobs, pods and services, of which there are many, lists and watches are decoded as what is read
of them, which takes a quarter of the time and of the memory. An answer that is not what it should
be raises ValueError.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from tftraining_operator.core import bounds, slim
from tftraining_operator.reconcile.store import Kind

_Object = dict[str, Any]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw]


_OBJECT = msgspec.json.Decoder(_Object)
_READ: dict[Kind, msgspec.json.Decoder[Any]] = {
    Kind.JOB: msgspec.json.Decoder(slim.Job),
    Kind.POD: msgspec.json.Decoder(slim.Pod),
    Kind.SERVICE: msgspec.json.Decoder(slim.Service),
}
_LIST = msgspec.json.Decoder(_List)
_EVENT = msgspec.json.Decoder(_Event)
_CHANGES = ("ADDED", "MODIFIED", "DELETED")

_PORTION = 256 * 1024
"""Bytes of a list's objects that are decoded at once: of braces alone, within some 0.2 s."""

encode = msgspec.json.Encoder().encode


def decode(text: bytes) -> _Object:
    """Return an object as it is."""
    return bounds.read(text, _OBJECT.decode)


def is_cut(kind: Kind) -> bool:
    """Tell whether of this kind only what is read is decoded."""
    return kind in _READ


def decode_list(text: bytes) -> tuple[list[msgspec.Raw], str, str]:
    """Return a list's objects as they came, its resource version, and what asks for its next page.

    There is none for "".
    """
    found = bounds.read(text, _LIST.decode)
    return found.items, found.metadata.resource_version, found.metadata.continue_


def portions(objects: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    """Yield a list's objects, as many at a time as are decoded in one turn of the event loop.

    At least one portion, which may be empty.
    """
    portion: list[msgspec.Raw] = []
    size = 0
    for each in objects:
        size += len(each)
        if portion and size > _PORTION:
            yield portion
            portion, size = [], len(each)
        portion.append(each)
    yield portion


def decode_objects(kind: Kind, objects: Iterable[msgspec.Raw]) -> list[_Object]:
    """Return objects of a list."""
    decode = partial(_object, kind)
    return [bounds.read(bytes(each), decode) for each in objects]


def decode_event(kind: Kind, line: bytes) -> _Object:
    """Return an event of a watch; an ERROR's or a BOOKMARK's object as it is."""
    return bounds.read(line, partial(_event, kind))


def _event(kind: Kind, line: bytes) -> _Object:
    event = _EVENT.decode(line)
    is_change = event.type in _CHANGES
    return {
        "type": event.type,
        "object": _object(kind, event.object) if is_change else _OBJECT.decode(event.object),
    }


def _object(kind: Kind, text: bytes | msgspec.Raw) -> _Object:
    decoder = _READ.get(kind)
    if decoder is None:
        return _OBJECT.decode(text)
    found: _Object = msgspec.to_builtins(decoder.decode(text))
    return found
