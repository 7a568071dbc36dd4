"""Asks a process for its metrics while it is measured, as a Prometheus does."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tools.cluster.shell import ClusterError

SECONDS = 15.0
_TIMEOUT = 60.0


@contextmanager
def scraped(url: str, seconds: float = SECONDS) -> Iterator[None]:
    """Read `url` every so many seconds in the block. Raises ClusterError if it was not answered."""
    ended = threading.Event()
    problems: list[OSError] = []

    def scrape() -> None:
        while not ended.wait(seconds):
            try:
                with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - http
                    answer.read()
            except OSError as error:
                problems.append(error)

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if problems:
        raise ClusterError(f"{url} was not answered {len(problems)} times: {problems[0]}")
