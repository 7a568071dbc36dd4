"""What the operator's settings and its permissions say about the NetworkPolicies of jobs."""

from dataclasses import dataclass
from typing import Any

from tftraining_operator.api.network import NetworkPolicy


@dataclass(frozen=True, slots=True)
class Networking:
    """Settings, and what keeps the operator from following them."""

    default: NetworkPolicy = NetworkPolicy.ISOLATED
    """For jobs that do not set spec.network.policy."""
    readers: tuple[dict[str, Any], ...] = ()
    """NetworkPolicyPeers that may ask pods for their progress: the operator, and monitoring."""
    problem: str = ""
    """Why the operator cannot use NetworkPolicies."""
