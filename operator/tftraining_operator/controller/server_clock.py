"""The API server's clock, by which jobs are judged.

Objects carry its times: when a pod was created, until when one that was told to end has for that. A
machine whose clock is two minutes ahead would take such a pod for one that a lost node holds, and
delete it by force while it saves. One whose clock is set forward by an hour would end a job for its
deadline before the next answer tells what time it is.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

logger = logging.getLogger(__name__)

_FAR = timedelta(seconds=10)
"""What is less is no difference: the server says whole seconds, and its answer needs time."""


class SteadyClock:
    """Begins as the machine's own clock, and goes on whatever that is set to later."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC)
        self._since = time.monotonic()

    def __call__(self) -> datetime:
        """Return what time it is."""
        return self._began + timedelta(seconds=time.monotonic() - self._since)


class ServerClock:
    """Tells the time by the machine's own clock, corrected where the API server's is another."""

    def __init__(self, own: Callable[[], datetime] | None = None) -> None:
        self._own = own or SteadyClock()
        self._ahead = timedelta(0)
        """How far the API server's clock is ahead of this machine's."""
        self._heard = ""

    def __call__(self) -> datetime:
        """Return what time it is."""
        return self._own() + self._ahead

    def heard(self, date: str) -> None:
        """Take in the header Date of an answer that has just come, "" if it had none."""
        # Most answers come in the same second as the one before.
        if date == self._heard:
            return
        self._heard = date
        try:
            moment = parsedate_to_datetime(date).astimezone(UTC)
        except (ValueError, OverflowError):
            return
        if abs(moment - self()) < _FAR:
            return
        found = moment - self._own()
        self._ahead = found if abs(found) >= _FAR else timedelta(0)
        logger.warning(
            "this machine's clock is %+.0f s from the API server's, which is used instead",
            -found.total_seconds(),
        )
