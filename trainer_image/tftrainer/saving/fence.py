"""Lets only the newest attempt of one job write checkpoints.

The chief of an older attempt may still be running on a node that is partitioned from the cluster,
and another job may be told the same directory. So each chief writes its job and attempt into the
directory when it starts (claim), unless it is another job's (ownership.py), and checks before each
save and export that there is no newer claim (Fence.check). This is not a lock: a save that is under
way is not stopped.

Only a missing file means that there is no claim. One that cannot be read ends the chief with 74: to
train on and save would risk the checkpoints of a newer attempt. One that is garbled, such as the
empty file that a crash of the volume's server can leave, is never ignored by a running chief
either. A chief that starts writes it anew if the checkpoints here are surely this job's, that is,
if there are none yet or the operator knows of one; else it may be another job that runs.

The file also holds the id of the chief's context, so that the next chief can free the memory that a
dead one uses on the servers.
"""

import logging
from dataclasses import dataclass

import tensorflow as tf

from tftrainer.config.job import Job
from tftrainer.errors import CheckpointUnavailableError, TerminatedError
from tftrainer.saving import checkpoints, claims, ownership
from tftrainer.saving.claims import Claim
from tftrainer.saving.files import GarbledFileError
from tftrainer.saving.ownership import Holder

_LOG = logging.getLogger(__name__)
_UNKNOWN = "an unknown job"
_MOST_EARLIER = 16


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of this process to write into a directory."""

    directory: str
    job: str
    job_uid: str
    attempt: int
    context_before: int | None = None
    """Context of the chief that had it before, of the same job."""
    predecessor: str | None = None
    """Whose checkpoints were here when this job came, if it may have saved none of its own yet."""

    def check(self) -> None:
        """Raise if a newer attempt of this job, or another job, has claimed the directory."""
        try:
            found = claims.read(self.directory)
        except GarbledFileError as error:
            raise CheckpointUnavailableError(
                f"{error}: it says which job writes to {self.directory}. This chief exits without "
                "saving; the next one claims the directory again."
            ) from error
        if found is None:
            return
        if found.uid != self.job_uid:
            raise CheckpointUnavailableError(
                f"job {found.job} (uid {found.uid}) has taken over {self.directory} from "
                f"{self.job or 'this process'} (uid {self.job_uid or 'none'}), which exits without "
                "saving. Use another checkpoint directory for one of the two."
            )
        if found.attempt > self.attempt:
            raise TerminatedError(
                f"attempt {found.attempt} of {self.job} has taken over {self.directory}; this "
                f"chief belongs to attempt {self.attempt} and exits without saving. If no other "
                f"chief of this job is running, delete {self.directory}/{claims.NAME}."
            )


def claim(job: Job, *, context: int | None = None) -> tuple[Job, Fence | None]:
    """Leave this attempt in the job's checkpoint directory, if it has one.

    Returns the job with the directory that is its own. Raises TerminatedError if a newer attempt of
    the same job is there, BadConfigurationError if the directory is another job's.
    """
    found = ownership.with_own_directory(job)
    directory, environment = found.checkpoint_dir, found.environment
    if directory is None:
        return found, None
    before = _before(found, directory)
    holder = ownership.holder_of(directory, before)
    ownership.require_own(found, holder)
    is_own = before is not None and before.uid == environment.job_uid
    fence = Fence(
        directory=directory,
        job=environment.job,
        job_uid=environment.job_uid,
        attempt=environment.attempt,
        context_before=before.context if before and is_own else None,
        predecessor=_predecessor(found, holder),
    )
    if is_own:
        fence.check()
    own = Claim(
        job=environment.job,
        uid=environment.job_uid,
        attempt=environment.attempt,
        context=context,
        earlier=_earlier(before, is_own=is_own),
    )
    try:
        claims.write(directory, own)
    except CheckpointUnavailableError as error:
        if not is_own or not isinstance(error.__cause__, tf.errors.ResourceExhaustedError):
            raise
        # It may be full of what a process has left that was killed while it saved.
        checkpoints.remove_unfinished(directory)
        claims.write(directory, own)
    written = claims.read(directory)
    if written is not None and written.uid != environment.job_uid:
        # Another job came at the same moment: it is no longer nobody's.
        return claim(job, context=context)
    return found, fence


def _before(job: Job, directory: str) -> Claim | None:
    environment = job.environment
    try:
        return claims.read(directory)
    except GarbledFileError as error:
        unsure = environment.job_uid and environment.checkpoint_step is None
        if unsure and checkpoints.any_in(directory):
            raise CheckpointUnavailableError(
                f"{error}: it says which job writes to {directory}. If no other job does, delete "
                "it; else use another checkpoint directory."
            ) from error
        _LOG.warning("%s; writing it again", error)
        return None


def _predecessor(job: Job, holder: Holder | None) -> str | None:
    environment = job.environment
    # The operator knows of a step that this job has saved; without a uid there are no jobs.
    if not environment.job_uid or environment.checkpoint_step is not None:
        return None
    if holder is None:
        return _UNKNOWN
    if holder.uid != environment.job_uid:
        return str(holder)
    # An attempt before has come here, and may have ended before it saved.
    return f"an earlier job (uid {holder.earlier[-1]})" if holder.earlier else None


def _earlier(before: Claim | None, *, is_own: bool) -> tuple[str, ...]:
    if before is None:
        return ()
    uids = before.earlier if is_own or not before.uid else (*before.earlier, before.uid)
    return uids[-_MOST_EARLIER:]
