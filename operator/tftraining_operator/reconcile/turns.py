"""Waiting keys, of which groups take turns; within a group, who came first is first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Turns(Generic[K]):
    """Keys that wait, each once, with the time since when."""

    def __init__(self, group: Callable[[K], Hashable]) -> None:
        self._group = group
        self._groups: OrderedDict[Hashable, OrderedDict[K, float]] = OrderedDict()
        self._since: dict[K, float] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._since

    def __len__(self) -> int:
        return len(self._since)

    def add(self, key: K, since: float) -> None:
        """Let a key wait, behind those of its group."""
        self._since[key] = since
        self._groups.setdefault(self._group(key), OrderedDict())[key] = since

    def discard(self, key: K) -> float | None:
        """Take a key out; return since when it waited, None if it did not."""
        if key not in self._since:
            return None
        group = self._group(key)
        del self._groups[group][key]
        if not self._groups[group]:
            del self._groups[group]
        return self._since.pop(key)

    def take(self, may_work: Callable[[Hashable], bool]) -> K | None:
        """Take out the key whose turn it is, of the groups that may work; None if there is none."""
        for group, waiting in self._groups.items():
            if may_work(group):
                key = next(iter(waiting))
                self._groups.move_to_end(group)
                self.discard(key)
                return key
        return None

    def since(self) -> Iterator[float]:
        """Yield since when each key waits."""
        yield from self._since.values()

    def oldest(self) -> float | None:
        """Return since when the first of all keys waits, None if none does."""
        first = (next(iter(keys.values())) for keys in self._groups.values())
        return min(first, default=None)
