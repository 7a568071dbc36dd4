"""The environment of a container, as the kubelet computes it."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining.cli.local.variables import environment, expand
from tftraining.errors import InputError

from tests.unit.builders import a_job
from tests.unit.cli.plans import a_manifest
from tests.unit.cli.test_manifest import CONFIG_MAP, SECRET

MANIFEST = a_manifest(a_job(), CONFIG_MAP | {"data": {"batch": "64"}, "binaryData": {}}, SECRET)
POD: dict[str, Any] = {
    "metadata": {
        "name": "mnist-worker-1",
        "namespace": "default",
        "uid": "u",
        "labels": {"team": "ml"},
    },
    "spec": {},
}


def env(*entries: dict[str, Any], overrides: dict[str, str] | None = None, **more: Any) -> Any:
    container = {"env": list(entries), **more}
    return environment(container, POD, MANIFEST, overrides or {})


def from_(kind: str, **reference: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {kind: reference}}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        pytest.param("$(A)$(B)", "1$(B)", id="known names only"),
        pytest.param("$$(A)", "$(A)", id="a doubled dollar is one"),
        pytest.param("$$$(A)", "$1", id="a doubled dollar before a reference"),
        pytest.param("$A ${A} $", "$A ${A} $", id="no shell"),
        pytest.param("$(A", "$(A", id="an open reference"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


def test_a_value_may_refer_to_earlier_variables_only() -> None:
    found = env(
        {"name": "A", "value": "$(B)"},
        {"name": "B", "value": "2"},
        {"name": "C", "value": "$(B)"},
        {"name": "D"},
    )
    assert found == {"A": "$(B)", "B": "2", "C": "2", "D": ""}


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        pytest.param(from_("fieldRef", fieldPath="metadata.name"), "mnist-worker-1", id="the name"),
        pytest.param(from_("fieldRef", fieldPath="metadata.labels['team']"), "ml", id="a label"),
        pytest.param(from_("fieldRef", fieldPath="status.podIP"), "127.0.0.1", id="the address"),
        pytest.param(from_("configMapKeyRef", name="code", key="batch"), "64", id="a ConfigMap"),
        pytest.param(from_("secretKeyRef", name="keys", key="token"), "hi", id="a Secret"),
    ],
)
def test_a_reference_is_resolved_in_the_file_or_the_pod(entry: dict[str, Any], value: str) -> None:
    assert env(entry) == {"X": value}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param(
            from_("secretKeyRef", name="absent", key="token"),
            "env X: key token of Secret absent is not in the file: set it with --env X=VALUE",
            id="another Secret",
        ),
        pytest.param(
            from_("resourceFieldRef", resource="limits.cpu"),
            "env X: resourceFieldRef is not available on this computer",
            id="a limit",
        ),
        pytest.param(from_("fieldRef", fieldPath="x"), "fieldRef is not available", id="a field"),
        pytest.param(
            {"name": "X", "value": 3}, 'must be a string: write "3" in quotes', id="a number"
        ),
    ],
)
def test_an_unresolved_reference_is_named_with_the_fix(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        env(entry)
    assert message in str(refused.value)
    assert env(entry, overrides={"X": "1"}) == {"X": "1"}


def test_an_optional_reference_may_be_missing() -> None:
    assert env(from_("configMapKeyRef", name="absent", key="a", optional=True)) == {}


def test_a_value_may_refer_to_a_variable_that_is_overridden() -> None:
    found = env(
        {"name": "A", "value": "$(DATA)/a"},
        {"name": "DATA", "value": "/data"},
        {"name": "B", "value": "$(DATA)/b"},
        {"name": "C", "value": "$(batch)"},
        envFrom=[{"configMapRef": {"name": "code"}}],
        overrides={"DATA": "./d", "batch": "8"},
    )
    assert found == {"A": "$(DATA)/a", "DATA": "./d", "B": "./d/b", "C": "8", "batch": "8"}


def test_env_from_adds_a_prefix_and_env_takes_precedence() -> None:
    found = env(
        {"name": "C_batch", "value": "1"},
        envFrom=[
            {"prefix": "C_", "configMapRef": {"name": "code"}},
            {"secretRef": {"name": "keys"}},
            {"configMapRef": {"name": "absent", "optional": True}},
        ],
    )
    assert found == {"C_batch": "1", "token": "hi", "user": "me"}


def test_a_config_map_that_is_not_in_the_file_is_named() -> None:
    with pytest.raises(InputError, match="envFrom: Secret absent is not in the file"):
        env(envFrom=[{"secretRef": {"name": "absent"}}])
