"""Locks what a local run writes to against a second run; the session takes the locks.

The system releases them when tftj exits, however it does. Nothing is written.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tftraining.errors import InputError


@contextlib.contextmanager
def locked(path: Path, otherwise: str) -> Iterator[None]:
    """Lock a file or folder until the block ends. Raises InputError(otherwise), OSError.

    Some network file systems have no such locks; there the block runs without.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(otherwise) from error
        yield
    finally:
        os.close(descriptor)
