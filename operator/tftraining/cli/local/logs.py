"""Follows the logs of a run's processes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tftraining.view.log_lines import last_state


@dataclass(slots=True)
class _Follower:
    path: Path
    offset: int = 0
    rest: bytes = b""


@dataclass(slots=True)
class Logs:
    """New complete lines of several files, by the name of the process that wrote them."""

    _followers: dict[str, _Follower] = field(default_factory=dict)

    def follow(self, name: str, path: Path) -> None:
        """Follow a file from its present end; it need not exist yet."""
        offset = path.stat().st_size if path.exists() else 0
        self._followers[name] = _Follower(path, offset)

    def new_lines(self) -> Iterator[tuple[str, str]]:
        """Yield (name, line) for each line written since the last call."""
        for name, follower in self._followers.items():
            for text in _read(follower):
                yield name, text


def _read(follower: _Follower) -> Iterable[str]:
    try:
        with follower.path.open("rb") as file:
            file.seek(follower.offset)
            new = file.read()
    except FileNotFoundError:
        return []
    follower.offset += len(new)
    *lines, follower.rest = (follower.rest + new).split(b"\n")
    return [last_state(text.decode(errors="replace")) for text in lines]
