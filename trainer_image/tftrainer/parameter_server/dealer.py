"""Deals the batches of a training out to the workers, each once; used by all modes. Pure.

Each worker has a lane: of three workers, the first has batches 0, 3, 6, …, so that it can make its
own ahead and need not make those of others. A worker is given some batches of its lane and says how
far it came. One that has finished its lane before an epoch ends is given half of what another has
left. Nobody is further than in the epoch after that of the slowest, unless epochs are so short that
a worker makes several at once. What a lost worker was given, or has left, is given to others; what
one that hangs was given, at the end of training. So no batch is left out. One may be repeated: of
those that a worker was given when it was lost, some may have been trained on.
"""

import threading
from collections.abc import Iterable

from tftrainer.data.position import Passes, Position

# A little that a worker has left is kept for it, as long as it comes for it. In turns of all.
_MOST_DECLINED = 20


class Dealer:
    """What is still to be trained on; the workers' threads and the chief's share it."""

    def __init__(self, passes: Passes, *, total: int, lanes: int = 1) -> None:
        """Begin at the start of these passes; `total` is the number at which training ends.

        `lanes` is the number of workers. With one lane, all of them share it.
        """
        self._passes = passes
        self._total = total
        self._lanes = lanes
        self._lock = threading.Lock()
        start = passes.start
        self._next = start.number
        missing = [range(*each) for each in start.missing]
        # What nobody is at, all below _next.
        self._open = [below for each in missing if (below := each[: _count_below(each, total)])]
        self._not_wanted = [rest for each in missing if (rest := each[_count_below(each, total) :])]
        """What a longer training has left behind the end of this one."""
        self._out: dict[int, tuple[int, range]] = {}
        """By first number: the worker, and what it was given."""
        self._follows: dict[int, range] = {}
        """What each worker would go on with: from the number behind its last, at the same steps."""
        self._lost: set[int] = set()
        """Workers that are lost, or hang: nothing is kept for them."""
        self._rejoining: set[int] = set()
        """Workers that were lost: when they are back, they begin at the beginning of the stream."""
        self._reading: set[int] = set()
        """Workers that read the data up to what they were given."""
        self._taken_back: list[range] = []
        """What a worker that hangs is still at, though others have it now."""
        self._declined = 0
        """How often in a row workers were given nothing."""
        self.trained = 0
        """Batches that are done, each counted once."""
        # Of numbers up to which somebody has trained: the place of the batch before.
        self._places: dict[int, tuple[int, int]] = {}

    def take(self, most: int, until: int, worker: int = 0) -> range | None:
        """Give a worker some batches with numbers below `until`; None if it shall have none."""
        with self._lock:
            self._lost.discard(worker)
            until = self._open_up(until, most)
            given = self._chosen(most, until, worker)
            if given is None:
                self._declined += 1
                return None
            self._declined = 0
            self._remove(given)
            if self._has_to_read(worker, given):
                self._reading.add(worker)
            self._rejoining.discard(worker)
            self._out[given.start] = worker, given
            self._follows[worker] = _behind(given)
            return given

    def has_any(self, most: int, until: int) -> bool:
        """Whether `take` would give some worker that has nothing in hand anything."""
        with self._lock:
            until = self._open_up(until, most)
            busy = self._busy
            return any(
                len(piece) > most or not busy & self._keepers(piece) for piece in self._below(until)
            )

    @property
    def start(self) -> Position:
        """Where it began."""
        return self._passes.start

    @property
    def opened(self) -> int:
        """The number below which all has been dealt out: it is done, in hand, or a worker's."""
        with self._lock:
            return self._next

    def note(self, given: range, made: int, last: tuple[int, int] | None = None) -> None:
        """Note that the first `made` of what was given are done; the others are given out again.

        `last` is the pass and index of the last one that was made.
        """
        with self._lock:
            worker = self._ended(given)
            if worker is None:
                return
            self._lost.discard(worker)
            self._reading.discard(worker)
            rest = given[made:]
            self._return(rest)
            if rest:
                self._follows[worker] = rest
            self.trained += made
            if made and last:
                lowest = self._done
                self._places = {n: p for n, p in self._places.items() if n >= lowest}
                self._places[given.start + made] = last

    def near(self, number: int) -> tuple[int, int, int]:
        """Return a batch whose place is known, not behind this one: its number, pass and index."""
        start = self._passes.start
        with self._lock:
            known = max((each for each in self._places if each <= number), default=None)
            if known is None:
                return start.number, start.data_pass, start.index
            data_pass, before = self._places[known]
        return known, data_pass, before + 1

    def lose(self, given: range) -> None:
        """Note that the worker which was given this is lost: others may have all that it had."""
        with self._lock:
            worker = self._ended(given)
            if worker is not None:
                self._lost.add(worker)
                self._reading.discard(worker)
                self._rejoining.add(worker)
                self._return(given)

    def give_up_waiting(self, *, also_readers: bool = True) -> None:
        """Have others take what is left to workers that are at something, as those hang.

        Without `also_readers` one that reads may still read: what it was given is not reached.
        """
        with self._lock:
            self._lost.update(worker for worker, _ in self._out.values())
            if also_readers:
                self._reading.clear()

    @property
    def hanging(self) -> int:
        """How many workers are still at what they had when they were given up."""
        with self._lock:
            given_up = sum(worker in self._lost for worker, _ in self._out.values())
            return given_up + len(self._taken_back)

    @property
    def is_reading(self) -> bool:
        """Whether a worker reads the data up to what it was given, as others had it before."""
        with self._lock:
            return bool(self._reading)

    def take_back(self) -> None:
        """Give out again all that is out."""
        with self._lock:
            out = [given for _, given in self._out.values()]
            self._out.clear()
            self._reading.clear()
            self._taken_back += out
            for given in out:
                self._return(given)

    def _has_to_read(self, worker: int, given: range) -> bool:
        """Whether what a worker is given does not follow what it had before."""
        if worker in self._rejoining:
            return True
        own = self._passes.start.number + (worker if self._lanes > 1 else 0)
        follows = self._follows.get(worker, range(own, own + 1, self._lanes))
        if self._lanes == 1:
            return given.start < follows.start
        return (given.start, given.step) != (follows.start, follows.step)

    def _ended(self, given: range) -> int | None:
        """Note that who was given this is not at it any more.

        Returns the worker; None if it was taken back meanwhile, and given to somebody else.
        """
        worker, out = self._out.get(given.start, (0, range(0)))
        if out == given:
            del self._out[given.start]
            return worker
        if given in self._taken_back:
            self._taken_back.remove(given)
        return None

    def _open_up(self, until: int, most: int) -> int:
        """Have what lies below `until` given out, but for what is too far off; returns its end."""
        epoch, workers = self._passes.start.epoch_batches, max(self._lanes, len(self._out) + 1)
        # An epoch, or two functions of each worker: they shall not wait for each other.
        ahead = self._slowest + max(epoch, 2 * most * workers)
        until = min(until, self._total, (ahead // epoch + 1) * epoch)
        for lane in range(self._lanes if until > self._next else 0):
            offset = (lane - (self._next - self._passes.start.number)) % self._lanes
            self._return(range(self._next + offset, until, self._lanes))
        self._next = max(self._next, until)
        return until

    @property
    def _slowest(self) -> int:
        """The first number that is not done, but for what workers that hang are at."""
        in_hand = (given for worker, given in self._out.values() if worker not in self._lost)
        return min((each.start for each in (*self._open, *in_hand)), default=self._next)

    def _chosen(self, most: int, until: int, worker: int) -> range | None:
        pieces = self._below(until)
        if self._lanes == 1:
            return pieces[0][:most] if pieces else None
        follows = self._follows.get(worker)
        for piece in pieces:
            if follows and (piece.start, piece.step) == (follows.start, follows.step):
                return piece[:most]
        for piece in pieces:
            if self._keepers(piece) == {worker}:
                return piece[:most]
        # The largest, so that nobody has to change often: it may cost reading the pass up to there.
        busy, enough = self._busy, self._declined > _MOST_DECLINED * self._lanes
        for piece in sorted(pieces, key=len, reverse=True):
            keepers = self._keepers(piece)
            if not keepers or (enough and not busy & keepers):
                return piece[:most]
            if len(piece) > most:
                return piece[len(piece) // 2 :][:most]
        return None

    @property
    def _busy(self) -> set[int]:
        return {worker for worker, _ in self._out.values()} - self._lost

    def _below(self, until: int) -> list[range]:
        known = [range(each.start, min(each.stop, until), each.step) for each in self._open]
        return [each for each in known if each]

    def _keepers(self, piece: range) -> set[int]:
        """Return the workers that will come to a piece: those in front of it, or whose lane it is.

        Empty if they are lost or come to another, and where all share one lane.
        """
        if self._lanes == 1:
            return set()
        come_to = {
            worker: (each.start, each.step)
            for worker, each in self._follows.items()
            if worker not in self._lost
        }
        keepers = {worker for worker, at in come_to.items() if at == (piece.start, piece.step)}
        if not keepers and piece.step == self._lanes:
            owner = (piece.start - self._passes.start.number) % self._lanes
            goes_elsewhere = come_to.get(owner) in [(p.start, p.step) for p in self._open]
            keepers = set() if goes_elsewhere else {owner} - self._lost
        return keepers

    def _remove(self, given: range) -> None:
        for number, piece in enumerate(self._open):
            if given.step == piece.step and given.start in piece:
                at = piece.index(given.start)
                rest = [piece[:at], piece[at + len(given) :]]
                self._open[number : number + 1] = [each for each in rest if each]
                return

    def _return(self, given: range) -> None:
        if given:
            self._open = _merged([*self._open, given])

    @property
    def reached(self) -> int:
        """The number below which all is done, or some worker trains on it."""
        with self._lock:
            is_last = self._next >= self._total
            # Training does not end without them. Other epochs do, as they would without who hangs.
            readers = self._reading if is_last else ()
            read = (given for worker, given in self._out.values() if worker in readers)
            return min((each.start for each in (*self._open, *read)), default=self._next)

    @property
    def done(self) -> int:
        """The number below which all is done."""
        with self._lock:
            return self._done

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left, nor in anybody's hands."""
        with self._lock:
            return self._next >= self._total and not self._open and not self._out

    @property
    def left(self) -> int:
        """How many batches are not done."""
        with self._lock:
            return max(0, self._total - self._next) + sum(map(len, self._undone()))

    @property
    def position(self) -> Position:
        """What to save with weights that have seen all that is done."""
        with self._lock:
            missing = _merged([*self._undone(), *self._not_wanted])
            number = self._first_untouched(missing)
            missing = [kept for each in missing if (kept := each[: _count_below(each, number)])]
        if missing and not self._passes.are_known:
            # They could not be found again: rather read what follows them twice.
            number = missing[0].start
        return self._passes.position(number, missing, self._places.get(number))

    def _first_untouched(self, undone: Iterable[range]) -> int:
        """Return the number from which on nothing is done."""
        last = [
            each
            for each in undone
            if each.step == self._lanes and _behind(each).start >= self._next
        ]
        if len(last) < self._lanes:
            return self._next
        return max(each.start for each in last) - self._lanes + 1

    @property
    def _done(self) -> int:
        return min((each.start for each in self._undone()), default=self._next)

    def _undone(self) -> list[range]:
        """Return what was opened up and is not done, by rising numbers."""
        return _merged([*self._open, *(given for _, given in self._out.values())])


def _behind(given: range) -> range:
    """Return the number that would follow, and all after it, at the same steps."""
    return range(given[-1] + given.step, given[-1] + 2 * given.step, given.step)


def _count_below(given: range, number: int) -> int:
    """Return how many of them are less than the number."""
    return len(range(given.start, max(given.start, min(given.stop, number)), given.step))


def _merged(ranges: Iterable[range]) -> list[range]:
    """Join what continues another at the same steps; sorted by first numbers."""
    merged: list[range] = []
    for each in sorted(ranges, key=lambda each: (each.step, each.start % each.step, each.start)):
        if merged and merged[-1].step == each.step and _behind(merged[-1]).start == each.start:
            merged[-1] = range(merged[-1].start, each.stop, each.step)
        else:
            merged.append(each)
    return sorted(merged, key=lambda each: each.start)
