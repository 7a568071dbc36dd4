"""Reads and writes complete.json in the checkpoint directory: training of a job is complete.

It holds the uid of the job, because a volume outlives a job: the marker of an earlier job must not
end the evaluator of this one. Written by recorder, read by evaluator and resume.
"""

import json
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import files
from tftrainer.progress import SavedCheckpoint, timestamp

_NAME = "complete.json"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which checkpoint is the last, for which job."""

    job_uid: str
    step: int
    path: str


def write(directory: str, *, job: str, job_uid: str, last: SavedCheckpoint) -> None:
    """Write it, over an older one if there is one."""
    document = {
        "version": 1,
        "job": job,
        "uid": job_uid,
        "step": last.step,
        "path": last.path,
        "time": timestamp(last.time),
    }
    files.replace(f"{directory}/{_NAME}", json.dumps(document))


def read(directory: str, job_uid: str) -> Marker | None:
    """Return the marker of this job; None if there is none, or another job's."""
    try:
        document = json.loads(files.read(f"{directory}/{_NAME}"))
        marker = Marker(str(document["uid"]), int(document["step"]), str(document["path"]))
    except (tf.errors.OpError, ValueError, KeyError, TypeError):
        return None
    return marker if marker.job_uid == job_uid else None
