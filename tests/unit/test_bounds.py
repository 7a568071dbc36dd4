"""A job may be as large and as deep as the API server takes it; nobody else may feel it."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.controller import wire
from tftraining_operator.core import bounds, slim
from tftraining_operator.core.job import InvalidJobError, is_ours, parse_job
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


def watched(job: str) -> Any:
    """Return what a watch makes of a job's JSON."""
    line = f'{{"type": "MODIFIED", "object": {job}}}'.encode()
    return wire.decode_event(Kind.JOB, line)["object"]


@pytest.mark.parametrize("levels", _DEPTHS)
def test_a_deep_job_is_listed_and_watched_as_any_other(levels: int) -> None:
    other = json.dumps(a_job().raw | {"metadata": {"name": "mnist", "uid": "uid-1"}})
    listed = (
        '{"metadata": {"resourceVersion": "9"}, "items": [' + a_deep_job(levels) + f",{other}]}}"
    )
    objects, version, more = wire.decode_list(listed.encode())
    items = wire.decode_objects(Kind.JOB, objects)
    assert [each["metadata"]["name"] for each in items] == ["deep", "mnist"]
    assert (version, more) == ("9", "")
    store = Store()
    assert store.put(Kind.JOB, watched(a_deep_job(levels)), is_cut=True) == ("default", "deep")
    assert wire.decode(a_deep_job(levels).encode())["metadata"]["name"] == "deep"


@pytest.mark.parametrize("levels", [100, 150, *_DEPTHS])
def test_a_deep_job_is_told_what_is_wrong(levels: int) -> None:
    raw = watched(a_deep_job(levels))
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
    assert bounds.deep_path(value) is None
    assert bounds.cut(value) == value
    assert bounds.read(nested(levels).encode(), json.loads) == value


def test_what_is_cut_is_what_lies_too_deep() -> None:
    text = f'[{nested(160)}, {nested(2)}, [], "{{", {{"b": {nested(9_900)}, "c": 1}}]'.encode()
    first, second, *others, last = bounds.read(text, json.loads)
    assert bounds.deep_path(first, 148) is not None
    assert bounds.deep_path(first, 149) is None
    assert [second, *others] == [json.loads(nested(2)), [], "{"]
    assert last["c"] == 1
    assert bounds.deep_path(last["b"], 148) is None


def a_large_job(size: int, **spec: Any) -> dict[str, Any]:
    raw = a_job().with_spec(**spec).raw
    raw["metadata"] |= {"resourceVersion": "7"}
    raw["spec"]["template"]["junk"] = ""
    raw["spec"]["template"]["junk"] = "x" * (size - len(wire.encode(raw["spec"])))
    return raw


@pytest.mark.parametrize("too_large", [False, True])
def test_of_a_spec_that_is_too_large_little_is_kept_and_the_job_is_told(*, too_large: bool) -> None:
    raw = a_large_job(bounds.MOST_BYTES + too_large)
    seen = watched(wire.encode(raw).decode())
    store = Store()
    key = store.put(Kind.JOB, raw)
    assert key is not None
    assert store.job(key) == seen, "the same from a watch and from the answer to a write"
    assert store.put(Kind.JOB, seen) is None
    if not too_large:
        assert seen["spec"] == raw["spec"]
        assert parse_job(seen, NOW).spec.worker.replicas == 1
        return
    assert len(wire.encode(seen)) < 1000
    with pytest.raises(InvalidJobError) as refused:
        parse_job(seen, NOW)
    assert str(refused.value) == (
        "spec: has 131073 bytes, and may have 131072: move scripts and data to a ConfigMap or the"
        " image"
    )


def test_a_large_job_of_another_controller_is_still_its_own() -> None:
    raw = slim.job(a_large_job(bounds.MOST_BYTES + 1, managedBy="example.com/other"))
    assert not is_ours(raw)


def test_a_job_that_was_started_before_it_became_large_is_held() -> None:
    raw = a_large_job(bounds.MOST_BYTES + 1)
    raw["status"] = a_job().with_status(a_condition(ConditionType.RUNNING), attempt=1).raw["status"]
    assert "may have 131072" in parse_job(slim.job(raw), NOW).unsupported


def test_specs_that_are_parsed_take_little_memory_however_many_versions_there_are() -> None:
    def parse(junk: int) -> None:
        raw = a_job().raw
        raw["spec"]["template"]["junk"] = [junk, *({} for _ in range(30_000))]
        parse_job(slim.job(raw), NOW)

    parse(0)
    tracemalloc.start()
    for number in range(1, 10):
        parse(number)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000, "20 MB when each was remembered"
