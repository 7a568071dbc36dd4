"""What became of one job: the converted one, and a finding for each difference in meaning."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ruamel.yaml.comments import CommentedMap


class Level(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    """The same in effect, or for the user to know."""
    DIFFERS = "differs"
    """Carried over, with another meaning in some cases."""
    LOST = "lost"
    """Cannot be carried over; the job was converted without it."""
    REFUSED = "refused"
    """The job cannot be converted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between a job and what it became."""

    level: Level
    path: str
    """Field of the job that was converted."""
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.path}: {self.text}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What became of one job."""

    name: str
    job: CommentedMap | None
    """The job of the other kind, None if this one cannot be converted."""
    findings: tuple[Finding, ...]


class RefusedError(Exception):
    """The job cannot be converted."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.finding = Finding(Level.REFUSED, path, text)


def is_whole(findings: Iterable[Finding]) -> bool:
    """Tell whether everything could be carried over."""
    return all(each.level not in (Level.LOST, Level.REFUSED) for each in findings)
