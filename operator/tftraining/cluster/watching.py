"""Follows the jobs of a namespace, or of all, by a listing and a watch.

`end_of` asks a watch for the end of one that is gone.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tftraining_operator.api.keys import API_VERSION, PLURAL
from tftraining_operator.core import bounds, slim

from tftraining.cluster.cluster import Calls, pages
from tftraining.errors import TFTrainingError, UnreachableError

_Object = dict[str, Any]

WATCH_SECONDS = 60
"""How long one watch lasts; then there is another one, or the API server does not answer."""
_END_SECONDS = 5
"""How long to wait for what became of a job that is gone: the API server knows it already."""
_PAGE = 100
"""Jobs that are listed at once: each may have a megabyte, and decoded several times that."""


class Kind(Enum):
    """What is told."""

    LISTED = auto()
    """These jobs and no others exist."""
    SEEN = auto()
    """A job was created or changed."""
    GONE = auto()
    """A job was deleted."""
    HEARD = auto()
    """Nothing changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of jobs, cut down to what is read of them."""

    kind: Kind
    jobs: list[_Object]


def changes(calls: Calls, *, everywhere: bool) -> Iterator[Change]:
    """Yield the jobs that exist and then, without end, what becomes of them.

    Ends when the API server has forgotten what changed since: begin again. Raises TFTrainingError.
    """
    where = "" if everywhere else f"/namespaces/{calls.namespace}"
    path = f"/apis/{API_VERSION}{where}/{PLURAL}"
    jobs, version = [], ""
    for page in pages(calls, path, size=_PAGE):
        jobs += [slim.job(job) for job in page["items"]]
        version = str(page["metadata"]["resourceVersion"])
    yield Change(Kind.LISTED, jobs)
    del jobs  # which this frame would keep for as long as it watches
    while True:
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        with calls.lines(path, query) as lines:
            for line in lines:
                event = _parsed(line)
                if event["type"] == "ERROR":
                    return
                version = str(event["object"]["metadata"]["resourceVersion"])
                yield _change(event["type"], event["object"])
        yield Change(Kind.HEARD, [])


def end_of(calls: Calls, job: _Object) -> _Object | None:
    """Return a job as it was when it was deleted, None if the API server cannot tell that.

    It knows for a minute or more what became of a version that was seen.
    """
    metadata = job["metadata"]
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={metadata['name']}",
        "resourceVersion": str(metadata["resourceVersion"]),
        "timeoutSeconds": str(_END_SECONDS),
    }
    path = f"/apis/{API_VERSION}/namespaces/{metadata['namespace']}/{PLURAL}"
    with contextlib.suppress(TFTrainingError), calls.lines(path, query) as lines:
        for event in map(_parsed, lines):
            found: _Object = event["object"]
            if event["type"] == "DELETED" and found["metadata"]["uid"] == metadata["uid"]:
                return found
    return None


def _parsed(line: str) -> _Object:
    try:
        event: _Object = bounds.read(line.encode(), json.loads)
    except ValueError as error:  # cut off
        raise UnreachableError("the connection to the cluster broke") from error
    return event


def _change(kind: str, job: _Object) -> Change:
    if kind == "BOOKMARK":
        return Change(Kind.HEARD, [])
    return Change(Kind.GONE if kind == "DELETED" else Kind.SEEN, [slim.job(job)])
