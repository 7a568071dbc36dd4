"""Lets only the newest attempt of a job write checkpoints.

The chief of an older attempt may still be running on a node that is partitioned from the cluster.
So each chief writes its attempt into the checkpoint directory when it starts (claim), and checks
before each save that there is no newer one (Fence.check, called by recorder). This is not a lock: a
save that is under way is not stopped.

The file also holds the id of the chief's context, so that the next chief can free the memory that a
dead one uses on the servers.
"""

import json
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import files
from tftrainer.checkpoints import unavailable
from tftrainer.errors import TerminatedError
from tftrainer.job import Job

_NAME = "attempt.json"


@dataclass(frozen=True, slots=True)
class _Claim:
    job_uid: str
    attempt: int
    context: int | None


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of this process to write into a directory."""

    directory: str
    job: str
    job_uid: str
    attempt: int
    context_before: int | None
    """Context of the chief that had it before, of the same job."""

    def check(self) -> None:
        """Raise TerminatedError if a newer attempt of this job has claimed the directory."""
        found = _read(self.directory, self.job_uid)
        if found is not None and found.attempt > self.attempt:
            raise TerminatedError(
                f"attempt {found.attempt} of {self.job} has taken over {self.directory}; this "
                f"chief belongs to attempt {self.attempt} and exits without saving. If no other "
                f"chief of this job is running, delete {self.directory}/{_NAME}."
            )


def claim(job: Job, *, context: int | None = None) -> Fence | None:
    """Leave this attempt in the checkpoint directory, if there is one.

    Raises TerminatedError if a newer attempt of the same job is there.
    """
    env, directory = job.environment, job.checkpoint_dir
    if directory is None:
        return None
    before = _read(directory, env.job_uid)
    fence = Fence(
        directory=directory,
        job=env.job,
        job_uid=env.job_uid,
        attempt=env.attempt,
        context_before=before.context if before else None,
    )
    fence.check()
    document = {
        "version": 1,
        "job": env.job,
        "uid": env.job_uid,
        "attempt": env.attempt,
        "context": context,
    }
    try:
        tf.io.gfile.makedirs(directory)
        files.replace(f"{directory}/{_NAME}", json.dumps(document))
    except (tf.errors.OpError, OSError) as error:
        raise unavailable(directory, "written", error) from error
    return fence


def _read(directory: str, job_uid: str) -> _Claim | None:
    """Return the newest claim; None if there is none, or another job's."""
    try:
        document = json.loads(files.read(f"{directory}/{_NAME}"))
        context = document["context"]
        found = _Claim(
            job_uid=str(document["uid"]),
            attempt=int(document["attempt"]),
            context=None if context is None else int(context),
        )
    except (tf.errors.OpError, ValueError, KeyError, TypeError):
        return None
    return found if found.job_uid == job_uid else None
