"""Keeps Python's collection of garbage from stopping the event loop; used where much is listed.

Nearly all that is made here goes by its count of references. What stays is what the store keeps:
looking through that of ten thousand jobs takes a tenth of a second.
"""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (10_000, 5, 2_000)
"""Seldom of all, which takes 11 ms with 700 jobs that report."""
_BETWEEN = 1.0


@contextmanager
def kept() -> Iterator[None]:
    """Look for no garbage during the block, nor later in what exists at its end: that stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()


def look_now() -> None:
    """Look for garbage once, where Python does not: in a block of `kept` that may take long."""
    if not gc.isenabled():
        gc.collect()


async def look_often() -> None:
    """Look through what is new each second, until cancelled.

    Python does so once there are more objects than before. Where the reports of thousands of pods
    take the place of older ones that comes late, and nearly all objects are new by then.
    """
    while True:
        await asyncio.sleep(_BETWEEN)
        gc.collect(1)
