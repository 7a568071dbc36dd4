"""Reads and writes complete.json in the checkpoint directory: training of a job is complete.

It holds the uid of the job, because a volume outlives a job: the marker of an earlier job must not
end the evaluator of this one. Written by recorder, read by evaluator, ownership and resume.

It is written when no step is to follow; where there are callbacks, which may have decided that and
may still fail, it says so, and is written again when they are done.
"""

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import tensorflow as tf

from tftrainer.runtime.progress import SavedCheckpoint, timestamp
from tftrainer.saving import files
from tftrainer.saving.checkpoints import reached

_LOG = logging.getLogger(__name__)
_NAME = "complete.json"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which checkpoint is the last, for which job."""

    job: str
    job_uid: str
    step: int
    path: str
    is_complete: bool = True
    """Whether the callbacks are done, which may change the weights of the last step."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What training ended with: a restart makes no step that would tell. Empty from an older
    trainer."""
    epochs: int | None = None
    """How many were asked for; None from an older trainer."""


def write(
    directory: str,
    *,
    job: str,
    job_uid: str,
    last: SavedCheckpoint,
    metrics: Mapping[str, float],
    epochs: int | None = None,
    complete: bool = True,
) -> None:
    """Write it, over an older one if there is one.

    Raises CheckpointUnavailableError: without it the evaluator would wait for ever.
    """
    document = {
        "version": 1,
        "job": job,
        "uid": job_uid,
        "step": last.step,
        "path": last.path,
        "complete": complete,
        "metrics": dict(metrics),
        "epochs": epochs,
        "time": timestamp(last.time),
    }
    with reached(directory, "written", what=f"the marker {_NAME}"):
        files.replace(f"{directory}/{_NAME}", json.dumps(document))


def remove(directory: str) -> None:
    """Delete it, if there is one: training goes on. Raises CheckpointUnavailableError."""
    what = f"the marker {_NAME}"
    with reached(directory, "deleted", what=what), contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(f"{directory}/{_NAME}")


def read(directory: str) -> Marker | None:
    """Return the marker of whichever job; None if there is none, or it is garbled.

    A garbled one is as good as none: the newest checkpoint says how far training is, and at the end
    the marker is written again. Raises CheckpointUnavailableError if it cannot be read.
    """
    try:
        with reached(directory, "read"):
            return _read(directory)
    except files.GarbledFileError as error:
        _LOG.warning("%s; ignoring it", error)
        return None


def is_complete(directory: str, job_uid: str) -> bool:
    """Whether training of this job is complete, for one who asks again: False if unreadable now."""
    try:
        found = _read(directory)
    except (tf.errors.OpError, OSError, files.GarbledFileError):
        return False
    return found is not None and found.job_uid == job_uid and found.is_complete


def _read(directory: str) -> Marker | None:
    path = f"{directory}/{_NAME}"
    document = files.read_document(path)
    if document is None:
        return None
    try:
        return Marker(
            job=str(document["job"]),
            job_uid=str(document["uid"]),
            step=int(document["step"]),
            path=str(document["path"]),
            is_complete=bool(document.get("complete", True)),
            metrics={str(n): float(v) for n, v in document.get("metrics", {}).items()},
            epochs=None if document.get("epochs") is None else int(document["epochs"]),
        )
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise files.GarbledFileError(f"{path} is garbled ({error!r})") from error
