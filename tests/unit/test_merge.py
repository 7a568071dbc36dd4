"""A role's template over the shared one, as Kubernetes merges pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tftraining_operator.core.merge import merge

Raw = dict[str, Any]


def _env(**values: str) -> Raw:
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="fields of both are kept"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="the upper value wins"),
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, id="maps go deep"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes a field"),
        pytest.param({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="null in a new map too"),
        pytest.param({}, {"a": None}, {}, id="null removes what is not there"),
        pytest.param({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="another kind replaces"),
        pytest.param({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}, id="args are one"),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="tolerations have no key: the list is replaced",
        ),
        pytest.param(
            _env(A="1", B="1"), _env(B="2", C="2"), _env(A="1", B="2", C="2"), id="env by name"
        ),
        pytest.param(
            {"containers": [{"name": "tensorflow", "image": "a", "args": ["x"]}]},
            {"containers": [{"name": "log"}, {"name": "tensorflow", "image": "b"}]},
            {"containers": [{"name": "tensorflow", "image": "b", "args": ["x"]}, {"name": "log"}]},
            id="containers by name, the first stays first",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "a", "mountPath": "/data"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/data"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/data"}]},
            id="mounts by their path",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80, "name": "web"}]},
            {"ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]},
            {"ports": [{"containerPort": 80, "name": "web", "protocol": "TCP", "hostPort": 80}]},
            id="a port without protocol is a TCP port",
        ),
        pytest.param(
            {"ports": [{"containerPort": 53, "protocol": "UDP"}]},
            {"ports": [{"containerPort": 53, "protocol": "TCP"}]},
            {
                "ports": [
                    {"containerPort": 53, "protocol": "UDP"},
                    {"containerPort": 53, "protocol": "TCP"},
                ]
            },
            id="one number under two protocols is two ports",
        ),
        pytest.param(
            _env(A="1"),
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            id="a variable has one origin",
        ),
        pytest.param(
            {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}]},
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "a"}}]},
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "a"}}]},
            id="a volume has one source",
        ),
        pytest.param(
            {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}]},
            {"volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}]},
            {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}}]},
            id="of the same source fields are kept",
        ),
        pytest.param(
            _env(A="1", B="1"),
            {"env": [{"name": "A"}, {"name": "B", "valueFrom": None}]},
            _env(A="1", B="1"),
            id="what says nothing of an origin keeps it",
        ),
        pytest.param(
            {"env": [{"name": {"odd": 1}}]},
            {"env": ["odd", {"name": {"odd": 1}, "value": "x"}]},
            {"env": [{"name": {"odd": 1}, "value": "x"}, "odd"]},
            id="nonsense is merged, for the API server to judge",
        ),
    ],
)
def test_merge(base: Raw, over: Raw, merged: Raw) -> None:
    assert merge(base, over) == merged


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "env", "ports", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_MAPS = st.dictionaries(st.sampled_from(["env", "ports", "x", "y"]), _JSON, max_size=4)


@given(_MAPS, _MAPS)
def test_merging_changes_neither_template(base: Raw, over: Raw) -> None:
    before = json.dumps([base, over])
    merge(base, over)
    assert json.dumps([base, over]) == before


@given(_MAPS, _MAPS)
def test_no_field_is_null_once_merged(base: Raw, over: Raw) -> None:
    def nulls(value: Any) -> bool:
        if isinstance(value, dict):
            return any(inner is None or nulls(inner) for inner in value.values())
        return isinstance(value, list) and any(map(nulls, value))

    assert not nulls(merge(merge({}, base), over))


@given(_MAPS)
def test_nothing_laid_over_changes_nothing(base: Raw) -> None:
    assert merge(base, {}) == base
