"""Why a group or a pod of it is not placed, as the schedulers write it."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers import SCHEDULERS


def a_condition(kind: str, value: str, message: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": value, "message": message}]}}


INQUEUE = {"phase": "Inqueue"}
NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu."
NEVER = " preemption: not eligible due to preemptionPolicy=Never."
VERDICT = (
    ", PodGroup test/blue-568dc-0-4 gets rejected due to Pod blue-chief-0 is unschedulable even"
    " after PostFilter"
)
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


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "0/2 nodes are available: pre-filter pod blue-chief-0 cannot find enough sibling pods,"
            " current pods number: 2, minMember of group: 4." + NEVER + VERDICT,
            "",
            id="not tried, as it was the first",
        ),
        pytest.param(
            "0/1 nodes are available: 1 optimistic rejection in PostFilter.",
            "",
            id="another of the gang found no node",
        ),
        pytest.param(
            "0/2 nodes are available: resource gap: map[cpu:{{4000 -3} {<nil>}  DecimalSI}]."
            + NEVER
            + VERDICT,
            "not enough is left on all nodes together: 4 more cpu needed",
            id="less than minResources is left",
        ),
        pytest.param(
            "0/2 nodes are available: resource gap: map[cpu:{{500 -3} {<nil>} 500m DecimalSI}"
            " memory:{{1024 0} {<nil>} 1Ki BinarySI}]." + VERDICT,
            "not enough is left on all nodes together: 500m more cpu, 1024 more memory needed",
            id="several resources",
        ),
        pytest.param(
            NO_ROOM + NEVER + VERDICT, NO_ROOM + NEVER, id="no node has room for this pod"
        ),
    ],
)
def test_coschedulings_explanation_of_a_pod(message: str, expected: str) -> None:
    assert SCHEDULERS[Gang.POD_GROUP].pod_explanation(message) == expected
