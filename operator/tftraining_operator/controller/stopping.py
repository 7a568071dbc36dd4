"""Work that is not begun, or is cancelled, once the process is asked to stop."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work unless asked to stop first; tell whether it was done."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        await working
        return True
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait({working, stopping})
