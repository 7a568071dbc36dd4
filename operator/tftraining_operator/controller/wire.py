"""JSON of the API server, both ways; kubernetes_api.py calls it.

Of jobs, pods and services, of which there are many, lists and watches are decoded as what is read
of them, which takes a quarter of the time and of the memory. An answer that is not what it should
be raises ValueError.
"""

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


class _Jobs(_List):
    items: list[slim.Job]


class _Pods(_List):
    items: list[slim.Pod]


class _Services(_List):
    items: list[slim.Service]


class _Others(_List):
    items: list[_Object]


_OBJECT = msgspec.json.Decoder(_Object)
_READ: dict[Kind, msgspec.json.Decoder[Any]] = {
    Kind.JOB: msgspec.json.Decoder(slim.Job),
    Kind.POD: msgspec.json.Decoder(slim.Pod),
    Kind.SERVICE: msgspec.json.Decoder(slim.Service),
}
_LISTS: dict[Kind, msgspec.json.Decoder[Any]] = {
    Kind.JOB: msgspec.json.Decoder(_Jobs),
    Kind.POD: msgspec.json.Decoder(_Pods),
    Kind.SERVICE: msgspec.json.Decoder(_Services),
}
_OTHERS = msgspec.json.Decoder(_Others)
_EVENT = msgspec.json.Decoder(_Event)
_CHANGES = ("ADDED", "MODIFIED", "DELETED")

encode = msgspec.json.Encoder().encode


def decode(text: bytes) -> _Object:
    """Return an object as it is."""
    return bounds.read(text, _OBJECT.decode)


def is_cut(kind: Kind) -> bool:
    """Tell whether of this kind only what is read is decoded."""
    return kind in _READ


def decode_list(kind: Kind, text: bytes) -> tuple[list[_Object], str, str]:
    """Return a list's objects, its resource version, and what asks for its next page, or ""."""
    return bounds.read(text, partial(_list, kind))


def decode_event(kind: Kind, line: bytes) -> _Object:
    """Return an event of a watch; an ERROR's or a BOOKMARK's object as it is."""
    return bounds.read(line, partial(_event, kind))


def _list(kind: Kind, text: bytes) -> tuple[list[_Object], str, str]:
    decoder = _LISTS.get(kind)
    found = _OTHERS.decode(text) if decoder is None else decoder.decode(text)
    items = found.items if decoder is None else msgspec.to_builtins(found.items)
    return items, found.metadata.resource_version, found.metadata.continue_


def _event(kind: Kind, line: bytes) -> _Object:
    event = _EVENT.decode(line)
    decoder = _READ.get(kind) if event.type in _CHANGES else None
    if decoder is None:
        return {"type": event.type, "object": _OBJECT.decode(event.object)}
    return {"type": event.type, "object": msgspec.to_builtins(decoder.decode(event.object))}
