"""The part of a job's spec that says which pods may be evicted. Read by core/policies."""

from __future__ import annotations

from enum import StrEnum

from tftraining_operator.api.base import Model


class DisruptionBudget(StrEnum):
    """Which pods of a job a PodDisruptionBudget protects from eviction."""

    NONE = "None"
    ESSENTIAL = "Essential"


class Disruption(Model):
    """Which pods may be evicted, as by a node drain."""

    budget: DisruptionBudget | None = None
    """Essential: a PodDisruptionBudget refuses to evict the pods whose loss interrupts training:
    chief and ps, under MultiWorkerMirrored chief and workers. A node that has one of them cannot be
    drained until the job has ended. None: all pods may be evicted; training then resumes from a
    checkpoint. Defaults to what the operator is set to, which is None unless changed. Can be
    changed while the job runs."""
