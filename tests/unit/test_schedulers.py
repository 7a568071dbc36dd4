"""Why a group is not placed, as the schedulers write it."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers import SCHEDULERS


def a_condition(kind: str, value: str, message: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": value, "message": message}]}}


INQUEUE = {"phase": "Inqueue"}
SHORT = "3/3 tasks in gang unschedulable: 1 node(s) resource fit failed"


@pytest.mark.parametrize(
    ("gang", "group", "expected"),
    [
        pytest.param(Gang.IN_TREE, {}, "", id="InTree: not tried yet"),
        pytest.param(
            Gang.IN_TREE,
            a_condition("PodGroupScheduled", "False", "no room"),
            "no room",
            id="InTree: no room",
        ),
        pytest.param(
            Gang.IN_TREE, a_condition("PodGroupScheduled", "True", "fine"), "", id="InTree: placed"
        ),
        pytest.param(
            Gang.POD_GROUP,
            {"status": {"phase": "Pending"}},
            "",
            id="coscheduling: its status may be of another group",
        ),
        pytest.param(
            Gang.VOLCANO,
            {"spec": {"queue": "research"}},
            "Volcano's queue research has not admitted it",
            id="Volcano: no phase yet",
        ),
        pytest.param(
            Gang.VOLCANO,
            {
                "status": {"phase": "Pending"}
                | a_condition("Unschedulable", "True", SHORT)["status"]
            },
            f"Volcano's queue default has not admitted it: {SHORT}",
            id="Volcano: its queue is full",
        ),
        pytest.param(
            Gang.VOLCANO,
            {"status": INQUEUE | a_condition("Unschedulable", "True", SHORT)["status"]},
            SHORT,
            id="Volcano: admitted, no room",
        ),
        pytest.param(Gang.VOLCANO, {"status": INQUEUE}, "", id="Volcano: admitted"),
        pytest.param(
            Gang.VOLCANO,
            {"status": {"phase": "Running"} | a_condition("Scheduled", "True", "ok")["status"]},
            "",
            id="Volcano: placed",
        ),
    ],
)
def test_explanation_of(gang: Gang, group: dict[str, Any], expected: str) -> None:
    assert SCHEDULERS[gang].explanation(group) == expected
