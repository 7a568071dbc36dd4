"""Rules about spec.scheduling, which rules.py includes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tftraining_operator.api.rule import Rule
from tftraining_operator.api.scheduling import Gang

if TYPE_CHECKING:
    from tftraining_operator.api.types import Spec


def _one_preference(_name: str, spec: Spec) -> bool:
    if spec.scheduling is None or (given := spec.scheduling.topology) is None:
        return True
    return (given.pack is None) != (given.spread is None)


SCHEDULING_RULES: tuple[Rule, ...] = (
    Rule(
        node="spec.scheduling.topology",
        field="spec.scheduling.topology",
        cel="has(self.pack) != has(self.spread)",
        message="set exactly one of pack and spread",
        holds=_one_preference,
    ),
    Rule(
        node="spec.scheduling",
        field="spec.scheduling.queue",
        cel=f"!has(self.queue) || (has(self.gang) && self.gang == '{Gang.VOLCANO}')",
        message=(
            "only Volcano has queues: set spec.scheduling.gang to Volcano, or remove"
            " spec.scheduling.queue"
        ),
        holds=lambda _name, spec: (
            spec.scheduling is None
            or spec.scheduling.queue is None
            or spec.scheduling.gang is Gang.VOLCANO
        ),
    ),
)
