"""What the operator's settings and its permissions say about the PodDisruptionBudgets of jobs."""

from dataclasses import dataclass

from tftraining_operator.api.disruption import DisruptionBudget


@dataclass(frozen=True, slots=True)
class Budgeting:
    """Settings, and what keeps the operator from following them."""

    default: DisruptionBudget = DisruptionBudget.NONE
    """For jobs that do not set spec.disruption.budget."""
    problem: str = ""
    """Why the operator cannot use PodDisruptionBudgets."""
