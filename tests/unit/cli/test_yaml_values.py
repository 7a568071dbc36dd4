"""What a scalar without quotes is, as kubectl reads it."""

from __future__ import annotations

import pytest
import yaml
from tftraining.yaml_values import Loader, plain_value


def load(text: str) -> object:
    (found,) = yaml.load_all(text, Loader)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((word, True) for word in ("y", "Y", "yes", "On", "TRUE")),
        *((word, False) for word in ("n", "N", "No", "off", "False")),
        *((word, None) for word in ("", "~", "null", "NULL")),
        *((word, word) for word in ("yEs", "nULL", "tRUE", "nan", "inf", "=", "mnist", "-", "+")),
        ("0", 0),
        ("017", 15),
        ("0o17", 15),
        ("-0O7", -7),
        ("0x1F", 31),
        ("0b11", 3),
        ("+1_000", 1000),
        ("-_1", -1),
        ("089", 89),
        ("1e3", 1000),
        ("12E-01", 1.2),
        ("1.e3", 1000),
        ("+.5e3", 500),
        (".5", 0.5),
        ("._1", "._1"),
        ("2.0", 2),
        ("1e21", 1e21),
        ("1e999", "1e999"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2**64),
        ("1:30", "1:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("2001-01-01", "2001-01-01"),
        ("2001-12-14 21:59:43.10 -5", "2001-12-14 21:59:43.10 -5"),
        ("0x", "0x"),
        ("1.2.3", "1.2.3"),
        ("500m", "500m"),
    ],
)
def test_a_scalar_without_quotes_is_what_kubectl_takes_it_for(text: str, expected: object) -> None:
    found = plain_value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_what_is_quoted_or_a_block_is_text() -> None:
    text = "a: \"1\"\nb: 'y'\nc: |-\n  1e3\nd: !!str 017\n"
    assert load(text) == {"a": "1", "b": "y", "c": "1e3", "d": "017"}


def test_keys_are_text() -> None:
    text = "{1: a, y: b, ~: c, 1e3: d, 1:30: e, x: f}"
    expected = {"1": "a", "true": "b", "null": "c", "1000": "d", "1:30": "e", "x": "f"}
    assert load(text) == expected


def test_anchors_are_merged() -> None:
    both = load("a: &a {x: 1, z: 3}\nb: {<<: *a, x: 2}\n")
    assert both == {"a": {"x": 1, "z": 3}, "b": {"x": 2, "z": 3}}
