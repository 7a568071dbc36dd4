"""Deals the batches of a training out to the workers, each once; used by all modes. Pure.

A worker is given a range of batch numbers and says how far it came. What it was given and did not
train on is given out again: at once if it says so or is lost, at the end of training if it hangs.
So no batch is left out. One may be repeated: TensorFlow repeats the whole range of a worker that is
lost in the middle of it.
"""

import threading

from tftrainer.position import Passes, Position


class Dealer:
    """What is still to be trained on; the workers' threads and the chief's share it."""

    def __init__(self, passes: Passes, *, total: int) -> None:
        """Begin at the start of these passes; `total` is the number at which training ends."""
        self._passes = passes
        self._total = total
        self._lock = threading.Lock()
        start = passes.start
        self._next = start.number
        self._returned = [range(first, end) for first, end in start.missing]
        self._out: dict[int, range] = {}
        self.trained = 0
        """Batches that are done, each counted once."""
        # Of numbers up to which somebody has trained: the place of the batch before.
        self._places: dict[int, tuple[int, int]] = {}

    def take(self, most: int, until: int) -> range | None:
        """Give out some batches with numbers below `until`; None if there are none."""
        with self._lock:
            if self._returned:
                first, *_ = self._returned
                given = first[:most]
                self._returned[:1] = [first[most:]] if len(first) > most else []
            else:
                given = range(self._next, min(self._next + most, until, self._total))
                if not given:
                    return None
                self._next = given.stop
            self._out[given.start] = given
            return given

    def note(self, given: range, made: int, last: tuple[int, int] | None = None) -> None:
        """Note that the first `made` of a range are done; the others are given out again.

        `last` is the pass and index of the last one that was made.
        """
        with self._lock:
            if self._out.get(given.start) != given:
                # It was taken back meanwhile, and given to somebody else.
                return
            del self._out[given.start]
            self._return(given[made:])
            self.trained += made
            if made and last:
                lowest = min((each.start for each in self._open()), default=self._next)
                self._places = {n: p for n, p in self._places.items() if n >= lowest}
                self._places[given.start + made] = last

    def take_back(self) -> int:
        """Give out again all that is out; returns how many batches that were."""
        with self._lock:
            out = list(self._out.values())
            self._out.clear()
            for given in out:
                self._return(given)
            return sum(map(len, out))

    def _return(self, given: range) -> None:
        if given:
            self._returned = sorted([*self._returned, given], key=lambda each: each.start)

    @property
    def reached(self) -> int:
        """The number below which all is done, or in the hands of a worker."""
        with self._lock:
            return self._returned[0].start if self._returned else self._next

    @property
    def given(self) -> int:
        """The number below which all has been given out at least once."""
        with self._lock:
            return self._next

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left, nor in anybody's hands."""
        with self._lock:
            return self._next >= self._total and not self._returned and not self._out

    @property
    def left(self) -> int:
        """How many batches are not done."""
        with self._lock:
            return max(0, self._total - self._next) + sum(map(len, self._open()))

    @property
    def position(self) -> Position:
        """What to save with weights that have seen all that is done."""
        with self._lock:
            missing, number = self._open(), self._next
        # Mostly what was given out last, and is not begun.
        while missing and missing[-1].stop == number:
            number = missing.pop().start
        if missing and not self._passes.are_known:
            # They could not be found again: rather read what follows them twice.
            number = missing[0].start
        return self._passes.position(number, missing, self._places.get(number))

    def _open(self) -> list[range]:
        """Return what was given out and is not done, by rising numbers."""
        return sorted([*self._returned, *self._out.values()], key=lambda each: each.start)
