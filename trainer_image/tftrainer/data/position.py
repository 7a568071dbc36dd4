"""Where training is in its data: how many batches are done, and where the next one lies. Pure.

All workers together read one stream of batches, the same in every process: pass after pass over the
data, each pass in an order that depends on the seed and its number alone. So a few numbers say what
has been trained on, whatever the strategy, the mode or the number of workers. They are saved in the
checkpoint, with the weights that have seen those batches.
"""

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

VERSION = 1
_LARGEST_SEED = 2**31 - 1


def drawn(seed: int | None) -> int:
    """Return the seed, or a random one."""
    return random.randint(0, _LARGEST_SEED) if seed is None else seed  # noqa: S311 -- no secret


ENDLESS = 2**40
"""The length of a pass that never ends, in batches: more than anybody will make."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long epochs and passes are, in batches of `batch_size` examples."""

    batch_size: int
    of_epoch: int
    of_pass: int | None
    """None if it is not known how long a pass is, or if it never ends."""
    is_endless: bool = False
    """Whether the dataset repeats for ever, so that there is no second pass."""

    def passes(self, start: "Position") -> "Passes":
        """Return where the batches from this place on lie."""
        return Passes(start, ENDLESS if self.is_endless else self.of_pass)


@dataclass(frozen=True, slots=True)
class Position:
    """The next batch of a training, and those before it that are still missing."""

    seed: int
    """What the order of the data is drawn with."""
    batch_size: int
    """Examples of a batch: the unit of everything below."""
    epoch_batches: int
    """Batches of an epoch."""
    number: int = 0
    """Batches that were handed out since training began, each counted once."""
    data_pass: int = 0
    """The pass over the data in which the next batch lies, counted from 0."""
    index: int = 0
    """Batches of that pass that come before it."""
    missing: tuple[tuple[int, int, int], ...] = ()
    """First, end and step of each range of numbers below `number` that nobody has trained on."""
    repeated: int = 0
    """Examples that the weights have seen once more, as a worker was lost that had them in hand."""
    begun: int = 0
    """Epochs whose beginning the callbacks have seen."""
    ended: int = 0
    """Epochs whose end they have seen, though a worker that hung may have left out some batches."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read what `text` wrote; None for an empty text, or one of another version."""
        values = json.loads(text) if text else {}
        if values.pop("version", None) != VERSION:
            return None
        # Older trainers wrote no steps: theirs were all 1.
        missing = tuple((*each, 1)[:3] for each in values.pop("missing"))
        return cls(**values, missing=missing)

    def text(self) -> str:
        """Write it as JSON."""
        return json.dumps({"version": VERSION, **asdict(self)})

    @property
    def needs_reading(self) -> bool:
        """Whether data has to be read before the first of the batches that are left is found."""
        return self.index > 0 or bool(self.missing)

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, counted from 0."""
        return self.number // self.epoch_batches

    def without_gaps(self, of_pass: int) -> "Position":
        """Return the same place, or that of the first batch that is missing before it.

        For those who read on from one place: what lies behind that is read again. `of_pass` is the
        length of a pass (batches).
        """
        if not self.missing:
            return self
        first = min(start for start, _, _ in self.missing)
        again = self.number - first - sum(len(range(*each)) for each in self.missing)
        start = Passes(self, of_pass).position(first)
        # Those epochs begin and end once more.
        start = replace(start, begun=0, ended=0)
        return replace(start, repeated=self.repeated + again * self.batch_size)

    def has_made(self, batches: int) -> bool:
        """Whether all batches with numbers below this have been trained on."""
        return self.number >= batches and all(first >= batches for first, _, _ in self.missing)

    def fitted(self, *, batch_size: int, epoch_batches: int, pass_batches: int | None) -> Self:
        """Return the same place in batches of another size, or in epochs of another length.

        Where the sizes do not divide, it is rounded down: less than a batch is read again. An epoch
        that has not ended keeps its last batch, to end with. `pass_batches` is the length of a pass
        now, if it is known.

        Where epochs become shorter, what is missing may have numbers below 0.
        """
        if (batch_size, epoch_batches) == (self.batch_size, self.epoch_batches):
            return self

        def by_epoch(each: int, *, up: bool = False) -> int:
            epoch, done = divmod(each, self.epoch_batches)
            batches = _divided(done * self.batch_size, batch_size, up=up)
            return epoch * epoch_batches + min(batches, epoch_batches)

        def by_distance(each: int, *, up: bool = False) -> int:
            examples = (self.index + each - self.number) * self.batch_size
            if examples < 0 and batch_size != self.batch_size:
                # In the pass before, whose last batch may be a smaller one, of both sizes.
                examples += self.batch_size - 1 if up else 1 - batch_size
            return number - index + _divided(examples, batch_size, up=up)

        number, index = by_epoch(self.number), self.index * self.batch_size // batch_size
        if number // epoch_batches > self.epoch:
            number, index = number - 1, max(0, index - 1)
        # Where each epoch is a pass, what it has left out lies that far into one.
        was_pass = self.number == self.data_pass * self.epoch_batches + self.index
        is_pass = epoch_batches == pass_batches and number == self.data_pass * epoch_batches + index
        fitted = by_epoch if was_pass and is_pass else by_distance
        again: list[tuple[int, int]] = []
        # One by one: what lies between two of them is done.
        for each in sorted(itertools.chain(*(range(*each) for each in self.missing))):
            first, end = fitted(each), min(fitted(each + 1, up=True), number)
            if again and first <= again[-1][1]:
                first, _ = again.pop()
            again.append((first, end))
        return replace(
            self,
            batch_size=batch_size,
            epoch_batches=epoch_batches,
            number=number,
            index=index,
            missing=tuple((first, end, 1) for first, end in again if first < end),
        )


def _divided(examples: int, size: int, *, up: bool) -> int:
    """Return how many batches they are, rounded down or up."""
    return -(-examples // size) if up else examples // size


@dataclass(frozen=True, slots=True)
class Passes:
    """Where the numbered batches of one process lie in the data."""

    start: Position
    batches: int | None
    """Batches of a pass; None if that is not known."""

    @property
    def are_known(self) -> bool:
        """Whether a batch can be found by its number."""
        return self.batches is not None

    def place(self, number: int) -> tuple[int, int] | None:
        """Return pass and index of a batch; None if it cannot be known without reading."""
        if self.batches is None:
            return None
        start = self.start
        first = start.data_pass * self.batches + start.index
        return divmod(first + number - start.number, self.batches)

    def position(
        self, number: int, missing: Sequence[range] = (), last: tuple[int, int] | None = None
    ) -> Position:
        """Return the position before a batch; `last` is the place of the one before it, if known.

        Where no place can be computed, what is missing could not be found again, and is dropped.
        """
        place = self.place(number)
        if place is None:
            data_pass, index = (last[0], last[1] + 1) if last else self._begin
            return replace(self.start, number=number, data_pass=data_pass, index=index, missing=())
        ranges = tuple((each.start, each.stop, each.step) for each in missing)
        return replace(
            self.start, number=number, data_pass=place[0], index=place[1], missing=ranges
        )

    def read_place(self, number: int, read: Mapping[int, int]) -> tuple[int, int] | None:
        """Return pass and index of a batch that was read; None if none was.

        `read` is how many batches of each pass were read, in their order, since the start. A pass
        of which nothing was left has none.
        """
        further = number - self.start.number
        for of_pass, batches in sorted(read.items()):
            if further < batches:
                begun = self.start.index if of_pass == self.start.data_pass else 0
                return of_pass, begun + further
            further -= batches
        return None

    @property
    def _begin(self) -> tuple[int, int]:
        return self.start.data_pass, self.start.index
