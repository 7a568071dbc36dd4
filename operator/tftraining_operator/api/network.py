"""The part of a job's spec that says who can connect to its pods. Read by core/policies."""

from __future__ import annotations

from enum import StrEnum

from tftraining_operator.api.base import Model


class NetworkPolicy(StrEnum):
    """Who can connect to the pods of a job."""

    ISOLATED = "Isolated"
    OPEN = "Open"


class Network(Model):
    """Who can connect to the pods."""

    policy: NetworkPolicy | None = None
    """Isolated: a NetworkPolicy lets only pods of the same job connect to the pods, and only the
    operator and monitoring read their progress; no pod is created without it. Open: no
    NetworkPolicy. Defaults to what the operator is set to, which is Isolated unless changed; pods
    are then created even if the operator may not create a NetworkPolicy. Can be changed while the
    job runs."""
