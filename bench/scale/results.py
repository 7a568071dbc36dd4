"""All rounds that were measured; kept in a file, one line each, so that a run can be continued."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bench.scale.audit import Requests
from bench.scale.life import Life

_COUNTED = ("requests", "ending")


@dataclass(slots=True)
class Results:
    """Lives by the number of jobs and the contender's name, then by the round's number."""

    raw: str
    """The contender that the others' pods are compared with."""
    lives: dict[tuple[int, str], dict[int, Life]] = field(default_factory=dict)
    file: Path | None = None

    @classmethod
    def of(cls, raw: str, file: Path | None) -> "Results":
        """Begin with the rounds that a file has."""
        found = cls(raw, file=file)
        if file is not None and file.exists():
            for line in file.read_text().splitlines():
                row = json.loads(line)
                found._put(row["who"], row["round"], _life(row["life"]))
        return found

    def add(self, who: str, number: int, life: Life) -> None:
        """Keep what a contender showed in a round."""
        self._put(who, number, life)
        if self.file is not None:
            with self.file.open("a") as out:
                out.write(json.dumps({"who": who, "round": number, "life": _row(life)}) + "\n")

    def last_round(self) -> int:
        """Return the number of the last round, 0 for none."""
        return max((number for rounds in self.lives.values() for number in rounds), default=0)

    def ratios(self, jobs: int, who: str, to: str) -> list[float]:
        """Return how often as long as somebody else one took, in each round that has both."""
        others = self.lives.get((jobs, to), {})
        return [
            life.pods_exist / others[number].pods_exist
            for number, life in self.lives.get((jobs, who), {}).items()
            if number in others
        ]

    def _put(self, who: str, number: int, life: Life) -> None:
        self.lives.setdefault((life.jobs, who), {})[number] = life


def _row(life: Life) -> dict[str, Any]:
    row = {each.name: getattr(life, each.name) for each in fields(life)}
    for name in _COUNTED:
        row[name] = {"writes": row[name].writes, "reads": row[name].reads}
    return row


def _life(row: Mapping[str, Any]) -> Life:
    counted = {name: _requests(row[name]) for name in _COUNTED}
    return Life(**{**row, **counted})


def _requests(row: Mapping[str, Any]) -> Requests:
    return Requests(Counter(row["writes"]), Counter(row["reads"]))
