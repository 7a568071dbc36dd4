"""Asks a process for its metrics while it is measured, as a Prometheus does."""

import threading
import urllib.request
from contextlib import AbstractContextManager

from tools.cluster.shell import ClusterError
from tools.waiting import meanwhile

SECONDS = 15.0
_TIMEOUT = 60.0


def scraped(url: str, seconds: float = SECONDS) -> AbstractContextManager[None]:
    """Read `url` every so many seconds in the block. Raises ClusterError if it was not answered."""

    def scrape(end: threading.Event) -> None:
        while not end.wait(seconds):
            try:
                with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - http
                    answer.read()
            except OSError as error:
                raise ClusterError(f"{url} was not answered: {error}") from error

    return meanwhile(scrape)
