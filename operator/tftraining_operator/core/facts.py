"""What a pass has learned beside the pods themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tftraining_operator.api.keys import Role
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.progress import Report


@dataclass(frozen=True, slots=True)
class Facts:
    """Refusals and reports of one pass."""

    refused: Mapping[str, Cause] = field(default_factory=dict)
    """Pods that the API server refused to create, by name."""
    reports: Mapping[Role, Report] = field(default_factory=dict)
    """The newest reports of chief and evaluator."""
