"""Objects of a status that the version before knows have no fields that it does not know.

It refuses such a status in every pass, where it ignores unknown fields of the status itself. When
that version is no longer the one before, its successor ignores both, and this test can go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import status

if TYPE_CHECKING:
    from tftraining_operator.api.base import Model

KNOWN: dict[type[Model], str] = {
    status.Condition: "type status reason message lastTransitionTime observedGeneration",
    status.Replicas: "chief worker ps evaluator",
    status.RoleStatus: "name desired ready active succeeded failed",
    status.Metric: "name value",
    status.Progress: (
        "step totalSteps percent percentText etaSeconds etaText stepsPerSecond metrics loss"
        " updatedAt lastStepTime resumedStep"
    ),
    status.CheckpointStatus: "step time path",
    status.Evaluation: "step metrics final",
    status.Failure: "role index pod node reason exitCode message time",
    status.UnavailableWorker: "index since",
    status.Disruption: "role pod reason time",
}


@pytest.mark.parametrize("model", KNOWN, ids=lambda model: model.__name__)
def test_a_rollback_finds_no_unknown_field_in(model: type[Model]) -> None:
    fields = {field.alias for field in model.model_fields.values()}
    assert fields <= set(KNOWN[model].split()), "add the field to Status itself"
