"""Who may act at the same time: many share, or one is alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Many may share, or one be alone."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._sharing = 0
        self._waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Take part; waits while somebody is, or wants to be, alone."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting)
            self._sharing += 1
        try:
            yield
        finally:
            with self._change:
                self._sharing -= 1
                self._change.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone; waits until nobody takes part."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting)
            self._waiting = 1
            self._change.wait_for(lambda: not self._sharing)
        try:
            yield
        finally:
            with self._change:
                self._waiting = 0
                self._change.notify_all()
