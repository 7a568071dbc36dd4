"""Rules about updates of a job, each as CEL and as Python, like those in rules.py. Pure.

runPolicy and the number of workers change at any time. All else is baked into running pods, so it
changes only while the job is idle: suspended, or refused by the operator until it is corrected.
What counts is the stored object: an update that suspends the job and changes a template at once
would change it under running pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tftraining_operator.api.keys import REJECTED_STATES
from tftraining_operator.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.api.types import Spec


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """What must hold between a job's old and new spec. The API server runs these on update only."""

    node: str
    """Node of the CRD that carries the CEL; above the field, or setting it escapes the rule."""
    field: str
    """Field that the problem names."""
    cel: str
    message: str
    holds: Callable[[Spec, Spec, str], bool]
    """The same as `cel`, over the old spec, the new one and the old status.state."""


def update_problems(old: Spec, new: Spec, *, state: str = "") -> list[Problem]:
    """Return every rule that the change of a job in `state` breaks, in the table's order."""
    broken = (rule for rule in TRANSITIONS if not rule.holds(old, new, state))
    return [Problem(rule.field, rule.message) for rule in broken]


_IDLE = (
    "oldSelf.spec.runPolicy.suspend || (has(oldSelf.status) && has(oldSelf.status.state)"
    f" && oldSelf.status.state in {list(REJECTED_STATES)})"
)


def _while_idle(
    field: str, same: Callable[[Spec, Spec], bool], *, cel: str = "", subject: str = ""
) -> TransitionRule:
    return TransitionRule(
        # Only the root sees the status.
        node="",
        field=f"spec.{field}",
        # What is unchanged comes first: all rules are evaluated at each write of a status, and a
        # field costs the API server as much as its object has fields, of which status has most.
        cel=f"({cel or _equal(f'spec.{field}')}) || {_IDLE}",
        message=(
            f"{subject}can change only while the job is suspended: set spec.runPolicy.suspend to"
            " true first, in a separate update"
        ),
        holds=lambda old, new, state: (
            old.run_policy.suspend or state in REJECTED_STATES or same(old, new)
        ),
    )


def _equal(field: str) -> str:
    # has() and not optional access, of which the API server cannot estimate the cost. Both ways
    # round, as its == overlooks an undeclared field that the right side lacks.
    return f"(has(self.{field}) ? has(oldSelf.{field}) && {_same(field)} : !has(oldSelf.{field}))"


def _same(field: str) -> str:
    return f"self.{field} == oldSelf.{field} && oldSelf.{field} == self.{field}"


def _same_workers(old: Spec, new: Spec) -> bool:
    if old.worker is None or new.worker is None:
        return old.worker is new.worker
    return (old.worker.template, old.worker.restart_policy) == (
        new.worker.template,
        new.worker.restart_policy,
    )


TRANSITIONS: tuple[TransitionRule, ...] = (
    TransitionRule(
        node="spec",
        field="spec.runPolicy.managedBy",
        cel="self.runPolicy.managedBy == oldSelf.runPolicy.managedBy",
        message="managedBy is immutable: delete the job and create it again",
        holds=lambda old, new, _state: old.run_policy.managed_by == new.run_policy.managed_by,
    ),
    TransitionRule(
        node="spec",
        field="spec.managedBy",
        cel=_equal("managedBy"),
        message="managedBy is immutable: delete the job and create it again",
        holds=lambda old, new, _state: old.managed_by == new.managed_by,
    ),
    # Strategy and chief have defaults, and are always there.
    _while_idle(
        "strategy",
        lambda old, new: old.strategy == new.strategy,
        cel="self.spec.strategy == oldSelf.spec.strategy",
    ),
    _while_idle("template", lambda old, new: old.template == new.template),
    _while_idle("chief", lambda old, new: old.chief == new.chief, cel=_same("spec.chief")),
    _while_idle(
        "worker",
        _same_workers,
        cel=(
            "has(self.spec.worker) == has(oldSelf.spec.worker) && (!has(self.spec.worker)"
            " || (self.spec.worker.restartPolicy == oldSelf.spec.worker.restartPolicy"
            f" && {_equal('spec.worker.template')}))"
        ),
        subject="all but replicas and minReplicas ",
    ),
    _while_idle("ps", lambda old, new: old.ps == new.ps),
    _while_idle("evaluator", lambda old, new: old.evaluator == new.evaluator),
    _while_idle("checkpoint", lambda old, new: old.checkpoint == new.checkpoint),
    _while_idle("scheduling", lambda old, new: old.scheduling == new.scheduling),
)
