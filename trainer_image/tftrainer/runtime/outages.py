"""Tells errors of the network and of servers from mistakes in the user's code; no TensorFlow.

Called by task and model for what the user's functions raise, and by supervisor for what ends
training: a mistake ends the job, while what is unavailable now may be there at the next attempt.
"""

import socket
import urllib.error
from collections.abc import Iterator
from http import HTTPStatus

# TensorFlow's by name, lest it be imported for this: of its own servers and of remote file systems.
_OF_TENSORFLOW = frozenset(
    {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
)
# HTTP statuses below 500 that the client need not have caused.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


def is_outage(error: BaseException) -> bool:
    """Whether an error means that something is unavailable, or was raised from one that does."""
    return any(_means_outage(each) for each in chain(error))


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and each one that the one before was raised from or while handling."""
    behind: BaseException | None = error
    while behind is not None:
        yield behind
        behind = behind.__cause__ or behind.__context__


def _means_outage(error: BaseException) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _PASSING
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
        return True
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, BaseException) and _means_outage(error.reason)
    kind = type(error)
    return kind.__name__ in _OF_TENSORFLOW and kind.__module__.startswith("tensorflow.")
