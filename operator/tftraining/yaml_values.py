"""Reads YAML as kubectl does, for manifest.py; yaml_text.py writes what no parser misreads.

kubectl's parser is Go's, to which `y` is true, `1e3`, `0o17` and `089` are numbers, and 1:30 and a
date are text. PyYAML takes each of them for something else, and `tftj submit` would send another
job than `kubectl apply`.
"""

import json
import math
import re
from typing import Any

import yaml

_WORDS: dict[str, float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(
    r"([-+]?) (?: 0b(?P<two>[01]+) | 0o?(?P<eight>[0-7]+) | 0x(?P<sixteen>[0-9a-f]+)"
    r"| (?P<ten>0|[1-9][0-9]*) )",
    re.IGNORECASE | re.VERBOSE,
)
_BASES = {"two": 2, "eight": 8, "sixteen": 16, "ten": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LARGE = 1e21
"""From here on Go writes a float with an exponent into JSON."""
_TAG = "tag:yaml.org,2002:"
_KINDS = {type(None): "null", bool: "bool", int: "int", float: "float"}


def plain_value(text: str) -> str | float | None:
    """Return what kubectl takes for the value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    # Underscores count for nothing, but after a dot at the beginning.
    digits = text if text[0] == "." else text.replace("_", "")
    number = _integer(digits)
    if number is None:
        number = _float(digits)
    return text if number is None else number


def _integer(digits: str) -> float | None:
    found = _INTEGER.fullmatch(digits)
    if found is None:
        return None
    kind = str(found.lastgroup)
    number = int(found[1] + found[kind], _BASES[kind])
    return number if -(2**63) <= number < 2**64 else None


def _float(digits: str) -> float | None:
    if _FLOAT.fullmatch(digits) is None or math.isinf(number := float(digits)):
        return None
    # 2.0 and 1e3 are 2 and 1000 in JSON.
    return int(number) if number.is_integer() and abs(number) < _LARGE else number


class Loader(yaml.SafeLoader):
    """The parser."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # noqa: ANN401 - the base's form
        """Return the tag of a node."""
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _TAG + ("merge" if value == "<<" else _KINDS.get(type(plain_value(value)), "str"))

    def flatten_mapping(self, node: Any) -> None:  # noqa: ANN401 - as above
        """Make text of an object's keys, as they are in JSON; merge others into it."""
        super().flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}str":
                found = self.construct_plain(key)
                key.value = found if isinstance(found, str) else json.dumps(found)
                key.tag = f"{_TAG}str"

    def construct_plain(self, node: Any) -> str | float | None:  # noqa: ANN401 - as above
        """Return the value of a node that is no text."""
        return plain_value(str(self.construct_scalar(node)))


for _kind in _KINDS.values():
    Loader.add_constructor(f"{_TAG}{_kind}", Loader.construct_plain)
