"""Rules about spec.scheduling, which rules.py includes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tftraining_operator.api.rule import Rule

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
)
