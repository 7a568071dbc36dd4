"""Merge patches turn what is stored into what is computed, and keep what others stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Status
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.patch import merge_patch, status_patch

from tests.unit.builders import NOW, a_condition, a_job, stamp
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


def rewritten(stored: dict[str, Any], **update: Any) -> dict[str, Any]:
    """A status as it is stored after this version has read it, changed it and written it."""
    read = parse_job(a_job().raw | {"status": stored}, NOW).status
    return merged(stored, status_patch(stored, read.model_copy(update=update)))


def a_raw_condition(kind: str, **fields: Any) -> dict[str, Any]:
    condition = a_condition(ConditionType.RUNNING).model_dump(mode="json", by_alias=True)
    return condition | {"type": kind} | fields


def a_failure(**fields: Any) -> dict[str, Any]:
    return {"role": "ps", "index": 0, "pod": "p", "reason": "R", "message": "", **fields}


def a_full_status(**fields: Any) -> dict[str, Any]:
    return Status().as_dict() | fields


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"novelty": {"a": [1]}}, id="at the top"),
        pytest.param(
            {"progress": {"step": 1, "updatedAt": stamp(), "metrics": [], "examples": 64}},
            id="in an object",
        ),
        pytest.param({"lastFailure": a_failure(time=stamp(), container="x")}, id="of a failure"),
        pytest.param({"conditions": [a_raw_condition("Running", severity=1)]}, id="in a condition"),
        pytest.param({"conditions": [a_raw_condition("Profiled")]}, id="as a condition"),
        pytest.param(
            {
                "unavailableWorkers": [{"index": 0, "since": stamp(), "node": "n"}],
                "awayWorkers": [{"index": 0, "since": stamp(), "node": "n"}],
            },
            id="in an entry of a list",
        ),
    ],
)
def test_what_another_version_stored_is_kept(fields: dict[str, Any]) -> None:
    stored = a_full_status(**fields)
    assert rewritten(stored) == stored
    assert rewritten(stored, restarts=3) == stored | {"restarts": 3}


def test_known_fields_are_removed_beside_unknown_ones() -> None:
    stored = a_full_status(
        startTime=stamp(),
        progress={"step": 1, "updatedAt": stamp(), "metrics": [], "examples": 64},
        novelty=1,
    )
    assert rewritten(stored, start_time=None, progress=None) == a_full_status(novelty=1)


def test_an_unknown_field_of_a_failure_does_not_pass_on_to_the_next() -> None:
    stored = a_full_status(lastFailure=a_failure(time=stamp(-9), container="sidecar"))
    newer = Status.model_validate_json(json.dumps({"lastFailure": a_failure(time=stamp(-1))}))
    found = rewritten(stored, last_failure=newer.last_failure)
    assert found["lastFailure"] == a_failure(time=stamp(-1))


def test_an_entry_that_is_gone_takes_its_unknown_fields_along() -> None:
    stored = a_full_status(
        unavailableWorkers=[{"index": i, "since": stamp(), "node": f"n{i}"} for i in (0, 1)]
    )
    read = parse_job(a_job().raw | {"status": stored}, NOW).status
    found = rewritten(stored, unavailable_workers=read.unavailable_workers[1:])
    assert found["unavailableWorkers"] == [{"index": 1, "since": stamp(), "node": "n1"}]


def test_unknown_conditions_leave_room_for_known_ones() -> None:
    stored = a_full_status(conditions=[a_raw_condition(f"New{i}") for i in range(16)])
    known = [a_condition(kind) for kind in ConditionType]
    types = [c["type"] for c in rewritten(stored, conditions=known)["conditions"]]
    assert types[: len(known)] == [kind.value for kind in ConditionType]
    assert len(types) == 16


def test_renamed_fields_are_also_stored_under_the_names_that_the_version_before_knows() -> None:
    before = {"leftOutWorkers": [1], "awayWorkers": [{"index": 1, "since": stamp()}]}
    stored = a_full_status(**before)
    del stored["excludedWorkers"], stored["unavailableWorkers"]
    both = {
        "excludedWorkers": before["leftOutWorkers"],
        "unavailableWorkers": before["awayWorkers"],
    }
    assert rewritten(stored) == a_full_status(**before, **both)
    assert rewritten(rewritten(stored), excluded_workers=[], unavailable_workers=[]) == (
        a_full_status()
    )


def test_repaired_fields_are_written() -> None:
    stored = a_full_status(restarts=-5, lastFailure=a_failure(time=stamp(), role="boss"))
    assert rewritten(stored) == a_full_status()
