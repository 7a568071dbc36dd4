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


def _elastic_with_a_least(_name: str, spec: Spec) -> bool:
    if spec.scheduling is None or not spec.scheduling.elastic:
        return True
    return spec.worker is not None and spec.worker.min_replicas is not None


SCHEDULING_RULES: tuple[Rule, ...] = (
    Rule(
        node="spec",
        field="spec.scheduling.elastic",
        cel=(
            "!has(self.scheduling) || !has(self.scheduling.elastic) || !self.scheduling.elastic"
            " || (has(self.worker) && has(self.worker.minReplicas))"
        ),
        message="elastic needs to know with how many workers to begin: set spec.worker.minReplicas",
        holds=_elastic_with_a_least,
    ),
    Rule(
        node="spec.scheduling.topology",
        field="spec.scheduling.topology",
        cel="has(self.pack) != has(self.spread)",
        message="set exactly one of pack and spread",
        holds=_one_preference,
    ),
)
