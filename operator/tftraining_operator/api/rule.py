"""What a rule about a job is; rules.py and scheduling_rules.py have them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.api.types import Spec


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold for a job whenever it is written."""

    node: str
    """Node of the CRD that carries the CEL; empty for the root."""
    field: str
    """Field that the problem names; `node` or below it."""
    cel: str
    message: str
    holds: Callable[[str, Spec], bool]
    """The same as `cel`, over metadata.name and the parsed spec."""
    on_write: bool = False
    """Whether a job that is stored already may break it: the operator can run the job all the same.

    A rule that is added later, for mistakes that the operator does not depend on, is of this kind.
    """
