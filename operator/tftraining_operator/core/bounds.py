"""How large what users write may be, and how deep it may be nested. Pure.

The API server takes a megabyte, and ten thousand levels. Python's functions end at a thousand, or
kill the process, and a megabyte occupies it for seconds: one user's job could end the operator, and
the list of a command line, for all.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

MOST_BYTES = 128 * 1024
"""Of a spec. Parsed, it needs thirty times as much memory."""
MOST_LEVELS = 100
"""Objects and lists within each other, of a spec; that of a pod has fifteen at most."""
_MOST_LEVELS_OF_TEXT = MOST_LEVELS + 50
"""Of a whole answer: a list or an event has its objects in it, and these what is noted of a spec.

What is cut here is still deeper than a spec may be, and refused by that.
"""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
"""A string or a bracket, of JSON."""


def deep_path(value: Any, levels: int = MOST_LEVELS) -> list[int | str] | None:  # noqa: ANN401
    """Return where a value has objects or lists below so many levels; None if it has none."""
    if not isinstance(value, dict | list):
        return None
    if levels == 0:
        return []
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if (rest := deep_path(inner, levels - 1)) is not None:
            return [name, *rest]
    return None


def cut(value: Any, levels: int = MOST_LEVELS) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of a value that has None for objects and lists below so many levels."""
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return None
    if isinstance(value, dict):
        return {name: cut(each, levels - 1) for name, each in value.items()}
    return [cut(each, levels - 1) for each in value]


def read(text: bytes, decode: Callable[[bytes], _T]) -> _T:
    """Decode JSON; what is nested too deep for that, without what lies too deep."""
    try:
        return decode(text)
    except RecursionError:
        return decode(_cut_text(text))


def _cut_text(text: bytes) -> bytes:
    kept, level, begin = [], 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            level += 1
            if level == _MOST_LEVELS_OF_TEXT + 1:
                kept += [text[begin : token.start()], b"null"]
        elif token[0] in (b"}", b"]"):
            if level == _MOST_LEVELS_OF_TEXT + 1:
                begin = token.end()
            level -= 1
    return b"".join([*kept, text[begin:]])
