"""Conditions change only when they say something else."""

from __future__ import annotations

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import ConditionStatus, Status
from tftraining_operator.core.conditions import ConditionWriter, find, is_finished, is_true

from tests.unit.builders import a_condition, at, stamp

RUNNING = ConditionType.RUNNING


@pytest.mark.parametrize(
    ("before", "value", "moves"),
    [
        pytest.param(True, True, False, id="still true"),
        pytest.param(False, False, False, id="still false"),
        pytest.param(True, False, True, id="no longer true"),
        pytest.param(False, True, True, id="now true"),
        pytest.param(True, None, True, id="no longer known"),
    ],
)
def test_the_transition_time_moves_only_when_the_status_flips(
    *, before: bool, value: bool | None, moves: bool
) -> None:
    writer = ConditionWriter([a_condition(RUNNING, value=before)], 2, at(60))
    writer.set(RUNNING, value=value, reason="Other", message="other words")
    (found,) = writer.result()
    assert found.last_transition_time == stamp(60 if moves else 0)
    assert (found.reason, found.message, found.observed_generation) == ("Other", "other words", 2)


def test_a_condition_that_is_set_first_is_dated_now() -> None:
    writer = ConditionWriter([], 1, at(7))
    writer.set(RUNNING, value=None, reason="Unknown", message="")
    assert writer.result()[0].last_transition_time == stamp(7)
    assert writer.result()[0].status is ConditionStatus.UNKNOWN


def test_the_order_is_fixed_whatever_the_order_of_setting() -> None:
    writer = ConditionWriter([], 1, at(0))
    for kind in reversed(ConditionType):
        writer.set(kind, value=False, reason="R", message="")
    assert [c.type for c in writer.result()] == list(ConditionType)


def test_a_message_is_cut_to_what_the_crd_allows() -> None:
    writer = ConditionWriter([], 1, at(0))
    writer.set(RUNNING, value=True, reason="R", message="x" * 10_000)
    assert len(writer.result()[0].message) <= 4096


def test_a_condition_that_is_not_there_is_not_true() -> None:
    status = Status(conditions=[a_condition(RUNNING)])
    assert is_true(status, RUNNING)
    assert not is_true(status, ConditionType.FAILED)
    assert find(status.conditions, ConditionType.FAILED) is None
    assert not is_finished(status)
    forged = Status(conditions=[a_condition(ConditionType.FINISHED)])
    assert not is_finished(forged), "one condition is no end"
    ends = [a_condition(ConditionType.FAILED), a_condition(ConditionType.FINISHED)]
    assert not is_finished(Status(conditions=ends))
    assert is_finished(Status(conditions=ends, completion_time=stamp()))
