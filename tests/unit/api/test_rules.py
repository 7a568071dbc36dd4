"""The rules as Python. tests/contract asks a real API server the same."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tftraining_operator.api.rules import MAX_NAME, RULES, problems
from tftraining_operator.api.transitions import TRANSITIONS, update_problems
from tftraining_operator.api.types import parse_spec

from tests.unit.api import edges
from tests.unit.api.cases import BROKEN, CHANGES, Broken, Change, a_spec


def test_a_usual_job_breaks_no_rule() -> None:
    assert problems("mnist", parse_spec(a_spec())) == []


def test_the_longest_name_breaks_no_rule() -> None:
    assert problems("m" * MAX_NAME, parse_spec(a_spec())) == []


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.why)
def test_one_rule_alone_refuses(case: Broken) -> None:
    assert [p.path for p in problems(case.name, parse_spec(case.spec))] == [case.field]


def test_every_rule_has_a_case_that_it_alone_refuses() -> None:
    met = {
        rule.message
        for case in BROKEN
        for rule in RULES
        if not rule.holds(case.name, parse_spec(case.spec))
    }
    assert met == {rule.message for rule in RULES}


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.why)
def test_a_change_is_allowed_or_refused_by_one_rule(case: Change) -> None:
    old, new = parse_spec(case.old), parse_spec(case.new)
    assert not problems("mnist", old)
    assert not problems("mnist", new)
    found = update_problems(old, new, state=case.state)
    assert [p.path for p in found] == ([case.field] if case.field else [])


def test_every_transition_rule_has_a_case_that_it_alone_refuses() -> None:
    met = {
        rule.field
        for case in CHANGES
        for rule in TRANSITIONS
        if not rule.holds(parse_spec(case.old), parse_spec(case.new), case.state)
    }
    assert met == {rule.field for rule in TRANSITIONS}


@pytest.mark.parametrize("spec", edges.ACCEPTED.values(), ids=edges.ACCEPTED.keys())
def test_the_models_accept(spec: Any) -> None:
    assert problems("mnist", parse_spec(spec)) == []


@pytest.mark.parametrize("spec", edges.REFUSED.values(), ids=edges.REFUSED.keys())
def test_the_models_refuse(spec: Any) -> None:
    try:
        found = problems("mnist", parse_spec(spec))
    except ValidationError:
        return
    assert found


@pytest.mark.parametrize("rule", [*RULES, *TRANSITIONS], ids=lambda rule: rule.message[:50])
def test_a_message_is_one_plain_line(rule: Any) -> None:
    assert rule.message == " ".join(rule.message.split())
    assert not rule.message.endswith(".")
    assert rule.field.startswith(rule.node) or not rule.node
