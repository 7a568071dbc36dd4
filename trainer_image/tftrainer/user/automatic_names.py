"""Gives layers, inputs and metrics without a name the same one in each build; called by model.

Keras numbers them within the process: in a second build of the same model, the metric `auc` of the
first would be `auc_1`. Callbacks, --keep-best and clients of the exported model know the first one.
"""

import collections
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

# What is public resets the numbers, and can neither read them nor put them back.
from tf_keras.src import backend


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The last numbers that Keras gave, by graph and kind, and the names that were given to it."""

    last: WeakKeyDictionary[Any, dict[Any, int]]
    given: frozenset[str]

    @classmethod
    def now(cls) -> "_Numbers":
        numbers = backend.PER_GRAPH_OBJECT_NAME_UIDS
        copied = {graph: dict(of_graph) for graph, of_graph in numbers.items()}
        return cls(WeakKeyDictionary(copied), frozenset(backend.OBSERVED_NAMES))

    def apply(self) -> None:
        """Have Keras number on from these; no number that it has given since is given again."""
        for graph, numbers in self.last.items():
            known = backend.PER_GRAPH_OBJECT_NAME_UIDS.setdefault(
                graph, collections.defaultdict(int)
            )
            for what, number in numbers.items():
                known[what] = max(known[what], number)
        backend.OBSERVED_NAMES.update(self.given)


# Of the whole process, as Keras's own are.
_OF_FIRST: WeakKeyDictionary[ModuleType, _Numbers] = WeakKeyDictionary()


@contextmanager
def as_in_first_build(module: ModuleType) -> Iterator[None]:
    """Have Keras number as when a model of this module was first built, and then go on."""
    now = _Numbers.now()
    first = _OF_FIRST.setdefault(module, now)
    backend.reset_uids()
    first.apply()
    try:
        yield
    finally:
        now.apply()
