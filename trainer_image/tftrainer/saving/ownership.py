"""Decides which directory holds a job's checkpoints, and refuses one that is another job's.

A volume outlives jobs, and several may share one. So the directory belongs to the job that its
claim names (claims.py), by name and uid:
- A job of another name gets a directory of its own name in it, if the directory is the operator's
  default, which is the whole volume. One that was named for this job alone is refused instead.
- A job of the same name and another uid is the same job, deleted and created again: what it left
  unfinished is resumed. What it completed is refused, lest an old model pass for a new one.
- A process without a uid, such as one on a laptop, belongs to no job: it uses what it is given.

Called by fence (chief), training.session (the other members) and evaluator.
"""

import contextlib
import time
from dataclasses import dataclass, replace

import tensorflow as tf

from tftrainer.config.environment import Environment
from tftrainer.config.job import Job
from tftrainer.errors import BadConfigurationError
from tftrainer.saving import checkpoints, claims, files, marker, storage
from tftrainer.saving.checkpoints import reached
from tftrainer.saving.claims import Claim
from tftrainer.saving.marker import Marker

# A job that has written within this time (seconds) may be running.
_RECENT = 600.0
_FOLDERS = ("best", "export", "logs")
"""What a training writes beside its checkpoints."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The job that a directory belongs to."""

    job: str
    uid: str
    completed: Marker | None = None
    """Its last checkpoint, if its training is complete."""
    earlier: tuple[str, ...] = ()
    """Uids of the jobs that the directory belonged to before."""

    def __str__(self) -> str:
        return f"job {self.job} (uid {self.uid})"


def with_own_directory(job: Job) -> Job:
    """Return the job with the directory that is its own; nothing is written.

    Raises BadConfigurationError for a location that cannot be used, CheckpointUnavailableError
    for one that cannot be read.
    """
    given, environment = job.checkpoint_dir, job.environment
    if given is None:
        return job
    storage.require_usable(given)
    if not (environment.job and environment.job_uid and _is_whole_volume(job)):
        return job
    own = _own_in(given.rstrip("/"), environment.job)
    if _belongs_to_another(given, environment) or _has_claim(own):
        return replace(job, environment=replace(environment, checkpoint_dir=own))
    return job


def _own_in(volume: str, job: str) -> str:
    own = f"{volume}/{job}"
    # The job that uses all of the volume would delete what another has in its folder.
    return f"{volume}/job-{job}" if job in _FOLDERS and not _has_claim(own) else own


def is_in_use(job: Job) -> bool:
    """Whether the checkpoints in the job's directory are surely its own, for one who only reads.

    A program of one's own may save without a claim.
    """
    directory, uid = job.checkpoint_dir, job.environment.job_uid
    if directory is None or not uid:
        return True
    try:
        claim = claims.read(directory)
    except files.GarbledFileError:
        return False
    return checkpoints.any_in(directory) if claim is None else claim.uid == uid


def holder_of(directory: str, claim: Claim | None) -> Holder | None:
    """Return whose the directory is; `claim` is what was read there. None if it is nobody's."""
    last = marker.read(directory)
    completed = last if last is not None and last.is_complete else None
    if claim is not None:
        # A job that went on from another's checkpoints leaves the other's marker until its end.
        own = completed if completed is not None and completed.job_uid == claim.uid else None
        found = Holder(claim.job, claim.uid, own, claim.earlier)
    elif last is not None:
        found = Holder(last.job, last.job_uid, completed)
    else:
        return None
    return found if found.uid else None


def require_own(job: Job, holder: Holder | None) -> None:
    """Raise BadConfigurationError if the job's directory is another job's."""
    environment, directory = job.environment, job.checkpoint_dir
    if directory is None or not environment.job_uid:
        return
    if holder is None:
        _require_newest(job, directory)
        return
    if holder.uid == environment.job_uid:
        return
    this = f"job {environment.job} (uid {environment.job_uid})"
    if environment.job_uid in holder.earlier:
        raise BadConfigurationError(
            f"{holder} has taken over {directory} from {this}: two running jobs use one directory. "
            f"{_OWN}"
        )
    continues = _starts_in(job.resume_from, directory)
    if holder.completed is not None and not continues:
        raise BadConfigurationError(
            f"{directory} holds the completed training of {holder}: step {holder.completed.step}, "
            f"{holder.completed.path}. It is not the result of {this}. {_OWN} To continue from "
            f"it, set spec.checkpoint.resumeFrom (--resume-from) to {directory} and raise --epochs."
        )
    if holder.job == environment.job and holder.completed is None:
        return
    if not continues:
        raise BadConfigurationError(f"{directory} belongs to {holder}, not to {this}. {_OWN}")
    _require_newest(job, directory)
    silent = _seconds_since_write(directory)
    if holder.completed is None and silent < _RECENT:
        raise BadConfigurationError(
            f"{holder} wrote to {directory} {silent:.0f} s ago and may still be running, so {this} "
            f"cannot take it over. Stop it first, or use another directory for {this}."
        )


def _require_newest(job: Job, directory: str) -> None:
    """Raise BadConfigurationError if an older checkpoint of the directory is to be gone on from.

    A start restores the newest that is there.
    """
    origin = (job.resume_from or "").rstrip("/")
    if not _starts_in(origin, directory):
        return
    newest = checkpoints.newest(directory)
    if newest is None or origin in (directory, newest):
        return
    raise BadConfigurationError(
        f"spec.checkpoint.resumeFrom (--resume-from) is {origin}, but the newest checkpoint in "
        f"{directory}, the directory of this job, is {newest}, from which it would continue. To "
        f"continue from that, set it to {directory}. To continue from {origin}, use another "
        "directory: spec.checkpoint.uri or --checkpoint-dir, another volume, or another name for "
        "the job, which then has a directory of that name."
    )


_OWN = (
    "To train from the beginning, use another directory: spec.checkpoint.uri or --checkpoint-dir, "
    "or another volume."
)


def _is_whole_volume(job: Job) -> bool:
    """Whether the directory is where the volume is mounted, rather than a place of its own."""
    given = job.environment.checkpoint_dir
    return job.arguments.checkpoint_dir is None and given is not None and "://" not in given


def _belongs_to_another(directory: str, environment: Environment) -> bool:
    try:
        holder = holder_of(directory, claims.read(directory))
    except files.GarbledFileError:
        # The claim itself decides what follows.
        return False
    if holder is None or holder.uid == environment.job_uid:
        return False
    return holder.job != environment.job


def _has_claim(directory: str) -> bool:
    path = f"{directory}/{claims.NAME}"
    with reached(directory, "read"):
        return bool(tf.io.gfile.exists(path))


def _starts_in(resume_from: str | None, directory: str) -> bool:
    """Whether a directory, or a checkpoint in it, is what training starts from."""
    if resume_from is None:
        return False
    directory, resume_from = directory.rstrip("/"), resume_from.rstrip("/")
    return directory in (resume_from, resume_from.rpartition("/")[0])


def _seconds_since_write(directory: str) -> float:
    newest = 0.0
    with reached(directory, "read"):
        for path in tf.io.gfile.glob([f"{directory}/{claims.NAME}", f"{directory}/ckpt-*"]):
            # The job that is still running may delete its oldest checkpoint now.
            with contextlib.suppress(tf.errors.NotFoundError):
                newest = max(newest, tf.io.gfile.stat(path).mtime_nsec / 1e9)
    return time.time() - newest
