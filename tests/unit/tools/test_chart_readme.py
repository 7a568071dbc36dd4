"""The chart's README says of every value what it is for."""

from __future__ import annotations

import pytest

from tools.chart_readme import README, UndescribedError, rendered, rows

SCHEMA = {
    "definitions": {"strings": {"type": "object", "additionalProperties": {"type": "string"}}},
    "properties": {
        "log": {"properties": {"format": {"enum": ["json", "text"]}}},
        "labels": {"$ref": "#/definitions/strings"},
        "port": {"type": "integer"},
    },
}
TEXT = """
log:
  # One | the other,
  # on two lines.
  format: json
# What holds
labels:
  a: b
port: 1
"""


def test_a_value_is_described_by_its_comment_and_typed_by_its_schema() -> None:
    values = {"log": {"format": "json"}, "labels": {"a": "b"}, "port": 1}
    described = TEXT.replace("port:", "# A port.\nport:")
    assert list(rows(values, described, SCHEMA)) == [
        '| `log.format` | `json`, `text` | `"json"` | One \\| the other, on two lines. |\n',
        '| `labels` | object | `{"a": "b"}` | What holds |\n',
        "| `port` | integer | `1` | A port. |\n",
    ]


def test_a_value_without_a_comment_is_named() -> None:
    values = {"log": {"format": "json"}, "labels": {"a": "b"}, "port": 1}
    with pytest.raises(UndescribedError, match=r"values.yaml: port has no comment"):
        list(rows(values, TEXT, SCHEMA))


def test_the_readme_is_up_to_date() -> None:
    assert README.read_text() == rendered()
