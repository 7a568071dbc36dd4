"""Waits for conditions by polling, for tests and scenarios; never by a fixed pause."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")

_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.5


def eventually(look: Callable[[], _T | None], what: str, seconds: float = 30.0) -> _T:
    """Return the first truthy result of `look`; raise AssertionError by name after `seconds`.

    Who looks by a program of its own, as kubectl is, leaves most of the processor to what it waits
    for.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        found = look()
        took = time.monotonic() - began
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what} (last: {found!r})")
        time.sleep(min(max(_PAUSE_SECONDS, 3 * took), _LONGEST_PAUSE_SECONDS))


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread during the block; its event is set at the end, then it is joined.

    Raises what it raised, unless the block has failed.
    """
    end, failures = threading.Event(), list[Exception]()

    def guarded() -> None:
        try:
            work(end)
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    if failures:
        raise failures[0]
