"""Merge patches turn what is stored into what is computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tftraining_operator.core.patch import merge_patch

from tests.unit.fakes import merged

_VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.text(max_size=2), _VALUES, max_size=5)


@given(_OBJECTS, _OBJECTS)
def test_applying_the_patch_to_old_gives_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merged(old, merge_patch(old, new)) == new


@given(_OBJECTS)
def test_nothing_changed_is_an_empty_patch(same: dict[str, Any]) -> None:
    assert merge_patch(same, dict(same)) == {}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}, id="only what differs"),
        pytest.param({"a": 1}, {}, {"a": None}, id="what is gone is null"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}, id="deep"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, id="lists go whole"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}, id="an emptied map stays"),
    ],
)
def test_a_patch_says_no_more_than_it_must(
    old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert merge_patch(old, new) == patch
