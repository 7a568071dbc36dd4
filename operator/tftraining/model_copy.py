"""Copies the exported model of a job to this computer.

The model is on the checkpoint volume, which outlives the pods of the job. So a pod of our own
mounts it, and streams a tar archive through exec; it is deleted at the end, and belongs to the job
for the case that this process is killed before.
"""

import contextlib
import secrets
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tftraining import helper_pod
from tftraining.cluster.cluster import Cluster, Execution
from tftraining.errors import (
    AlreadyExistsError,
    InputError,
    NotFoundError,
    TFTrainingError,
    UnreachableError,
)
from tftraining.helper_pod import Purpose
from tftraining.job import TrainingJob
from tftraining.recreation import owner

_Object = dict[str, Any]

_APP = "model-reader"
_DEADLINE_SECONDS = 24 * 3600
"""After which the pod ends also if nobody deletes it; a large model takes hours."""
_START_SECONDS = 180
_TICK_SECONDS = 0.5
_CHUNK = 1 << 20
_AHEAD = 4
"""Chunks that may be under way: what the client has not read yet is in its memory."""

_SENDER = """\
import sys, tarfile
class Chunks:
    def write(self, data):
        if not sys.stdin.buffer.read(1):
            sys.exit("the receiver is gone")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return len(data)
path, chunk = sys.argv[1], int(sys.argv[2])
try:
    with tarfile.open(fileobj=Chunks(), mode="w|", bufsize=chunk) as archive:
        archive.add(path, arcname=".")
except OSError as error:
    sys.exit(f"cannot read {path}: {error.strerror}")
"""
"""Runs in the pod: sends a chunk for each byte that it is given."""


@dataclass(frozen=True, slots=True)
class Model:
    """An exported model, as the status of a job names it."""

    step: int
    path: PurePosixPath
    """Folder, as the trainer sees it."""


def exported(job: TrainingJob, *, best: bool) -> Model:
    """Return the model that a job exported, or the best one. Raises NotFoundError, InputError."""
    status = job.status
    found = status.best if best else status.model
    path = status.best.export_path if best and status.best else None
    path = status.model.path if not best and status.model else path
    if found is None or path is None:
        raise NotFoundError(f"{job.name} has no {'best ' if best else ''}model{_reason(job, best)}")
    if "://" in path:
        raise InputError(
            f"the model of {job.name} is in object storage: copy {path} with the tools of that"
            " storage, such as gcloud storage cp --recursive"
        )
    return Model(found.step, PurePosixPath(path))


def _reason(job: TrainingJob, best: bool) -> str:  # noqa: FBT001 - as above
    if not job.finished:
        return f" yet: it is exported at the end of training, and the job is {job.why}"
    if job.spec.checkpoint is None:
        return ": set spec.checkpoint, where it is exported to"
    if best:
        return ": the best one is kept with the argument --keep-best=METRIC of the trainer"
    return f": {job.why}"


def copy(
    cluster: Cluster,
    job: TrainingJob,
    folder: Path,
    *,
    best: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> Path:
    """Copy a job's model to `folder`/STEP and return that folder. Raises TFTrainingError.

    The folder appears when the model is complete.
    """
    model = exported(job, best=best)
    target = folder / str(model.step)
    if target.exists():
        raise AlreadyExistsError(f"{target} exists: delete it, or copy to another folder (--to)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that renaming is atomic.
        place = Path(tempfile.mkdtemp(prefix=f".{model.step}-", dir=folder))
        try:
            name = f"{job.name}-{_APP}-{secrets.token_hex(2)}"
            command = ("python3", "-c", _SENDER, str(model.path), str(_CHUNK))
            # Before the pod is made: for some it is refused.
            sender = cluster.execute(name, _APP, command)
            with _reader(cluster, job, name, say):
                _receive(sender, place)
            place.chmod(0o755)
            place.rename(target)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from error
    return target


def _receive(sender: AbstractContextManager[Execution], place: Path) -> None:
    try:
        with sender as execution:
            stream = _Chunks(execution)
            file = cast("IO[bytes]", stream)  # all that tarfile calls is read()
            with tarfile.open(fileobj=file, mode="r|", bufsize=_CHUNK) as archive:
                archive.extractall(place, filter="data")
            # To the end, where the sender's exit code says whether that was all.
            while stream.read():
                pass
    except tarfile.TarError as error:
        raise TFTrainingError(f"the model arrived damaged: {error}; try again") from error


class _Chunks:
    """What the sender sends, as a file; asks for a chunk for each one that has been read."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._read = 0
        execution.write(b"." * _AHEAD)

    def read(self, _size: int = -1) -> bytes:
        """Return the next bytes, however many there are; b"" at the end."""
        found = self._execution.read()
        before, self._read = self._read, self._read + len(found)
        if chunks := self._read // _CHUNK - before // _CHUNK:
            self._execution.write(b"." * chunks)
        return found


@contextlib.contextmanager
def _reader(
    cluster: Cluster, job: TrainingJob, name: str, say: Callable[[str], None]
) -> Iterator[None]:
    """Run a pod that has the job's volume mounted, until the block ends."""
    image = helper_pod.image(job.raw, job.pods)
    if image is None:
        raise InputError(f"{job.name} has no pods, and neither template nor status names an image")
    sleep = f"import time; time.sleep({_DEADLINE_SECONDS})"
    container = {
        "command": ["python3", "-c", sleep],
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
    }
    # Whoever kills us leaves it to the garbage collector, which takes it with the job.
    purpose = Purpose(
        _APP, "model", container, _DEADLINE_SECONDS, {"ownerReferences": [owner(job.raw)]}
    )
    manifest = helper_pod.pod(name, job.raw, job.pods, image, purpose)
    say(f"starting pod {name}, which reads the volume")
    try:
        pod = cluster.create_pod(manifest)
    except KeyboardInterrupt:
        # Its answer did not arrive, but the pod may be there.
        with contextlib.suppress(TFTrainingError):
            cluster.delete_pod(cluster.pod(name))
        raise
    try:
        _wait_until_ready(cluster, name)
        yield
    finally:
        say(_deleted(cluster, pod))


def _deleted(cluster: Cluster, pod: _Object) -> str:
    """Delete a pod; tell what became of it. The model that it sent is complete without that."""
    name = pod["metadata"]["name"]
    try:
        cluster.delete_pod(pod)
    except NotFoundError:
        pass
    except TFTrainingError as error:
        return f"cannot delete pod {name}: {error}; it is deleted with the job, or by kubectl"
    return f"deleted pod {name}"


def _wait_until_ready(cluster: Cluster, name: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            pod = cluster.pod(name)
        except UnreachableError:
            if time.monotonic() > end:
                raise
            time.sleep(_TICK_SECONDS)
            continue
        if helper_pod.is_ready(pod):
            return
        failure = helper_pod.start_failure(pod)
        if helper_pod.has_ended(pod):
            failure = "it ended at once; has its image python3?"
        if failure or time.monotonic() > end:
            reason = failure or helper_pod.not_ready_reason(pod)
            raise TFTrainingError(
                f"pod {name} did not start: {reason or 'pulling its image takes too long'}"
            )
        time.sleep(_TICK_SECONDS)
