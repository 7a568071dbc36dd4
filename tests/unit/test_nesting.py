"""A job may be nested as deep as the API server takes it; nobody else may feel it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.controller import wire
from tftraining_operator.core import nesting
from tftraining_operator.core.job import InvalidJobError, parse_job
from tftraining_operator.reconcile.store import Kind, Store

from tests.unit.builders import NOW, a_condition, a_job

_DEPTHS = [900, 940, 960, 980, 1000, 1100, 9_900]
"""Around what Python and msgspec take, and up to what the API server does."""


def nested(levels: int) -> str:
    return '{"a": [' * (levels // 2) + '"}\\"{["' + "]}" * (levels // 2)


def a_deep_job(levels: int) -> str:
    raw = a_job().raw
    raw["metadata"] |= {"resourceVersion": "7", "name": "deep", "uid": "uid-deep"}
    raw["spec"]["template"]["spec"]["containers"][0]["extra"] = "@"
    raw["metadata"]["managedFields"] = [{"fieldsV1": "@"}]
    return json.dumps(raw).replace('"@"', nested(levels))


@pytest.mark.parametrize("levels", _DEPTHS)
def test_a_deep_job_is_listed_and_watched_as_any_other(levels: int) -> None:
    other = json.dumps(a_job().raw | {"metadata": {"name": "mnist", "uid": "uid-1"}})
    listed = (
        '{"metadata": {"resourceVersion": "9"}, "items": [' + a_deep_job(levels) + f",{other}]}}"
    )
    items, version, more = wire.decode_list(Kind.JOB, listed.encode())
    assert [each["metadata"]["name"] for each in items] == ["deep", "mnist"]
    assert (version, more) == ("9", "")
    line = f'{{"type": "MODIFIED", "object": {a_deep_job(levels)}}}'.encode()
    event = wire.decode_event(Kind.JOB, line)
    store = Store()
    assert store.put(Kind.JOB, event["object"], is_cut=True) == ("default", "deep")
    assert wire.decode(a_deep_job(levels).encode())["metadata"]["name"] == "deep"


@pytest.mark.parametrize("levels", [100, 150, *_DEPTHS])
def test_a_deep_job_is_told_what_is_wrong(levels: int) -> None:
    line = f'{{"type": "ADDED", "object": {a_deep_job(levels)}}}'.encode()
    raw = wire.decode_event(Kind.JOB, line)["object"]
    with pytest.raises(InvalidJobError) as refused:
        parse_job(raw, NOW)
    assert str(refused.value) == (
        "spec.template.spec.containers[0].extra.a: has more than 100 levels of objects and lists"
        " within each other; remove it, no pod needs that many"
    )


def test_a_job_that_was_started_before_it_became_deep_goes_on() -> None:
    raw = a_job().with_status(a_condition(ConditionType.RUNNING), attempt=1).raw
    extra: Any = json.loads(nested(200))
    raw["spec"]["template"]["spec"]["containers"][0]["extra"] = extra
    job = parse_job(raw, NOW)
    assert "more than 100 levels" in job.unsupported
    assert job.desired(Role.WORKER) == 1


@pytest.mark.parametrize("levels", [2, 40, 80])
def test_what_is_not_deep_is_left_as_it_is(levels: int) -> None:
    value = json.loads(nested(levels))
    assert nesting.deep_path(value) is None
    assert nesting.cut(value) == value
    assert nesting.read(nested(levels).encode(), json.loads) == value


def test_what_is_cut_is_what_lies_too_deep() -> None:
    text = f'[{nested(160)}, {nested(2)}, [], "{{", {{"b": {nested(9_900)}, "c": 1}}]'.encode()
    first, second, *others, last = nesting.read(text, json.loads)
    assert nesting.deep_path(first, 148) is not None
    assert nesting.deep_path(first, 149) is None
    assert [second, *others] == [json.loads(nested(2)), [], "{"]
    assert last["c"] == 1
    assert nesting.deep_path(last["b"], 148) is None
