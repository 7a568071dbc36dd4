"""Reads and writes attempt.json in the checkpoint directory: which job writes checkpoints there.

Used by fence, which writes it, and ownership, which decides by it whose directory it is.
"""

import json
from dataclasses import asdict, dataclass

import tensorflow as tf

from tftrainer.saving import files
from tftrainer.saving.checkpoints import reached

NAME = "attempt.json"


@dataclass(frozen=True, slots=True)
class Claim:
    """The newest attempt that writes, of the job that the directory belongs to."""

    job: str
    uid: str
    attempt: int
    context: int | None = None
    """Id of the chief's context on its servers."""
    earlier: tuple[str, ...] = ()
    """Uids of the jobs that the directory belonged to before."""


def read(directory: str) -> Claim | None:
    """Return the claim; None if there is no such file, and only then.

    Raises CheckpointUnavailableError if it cannot be read, GarbledFileError if it says nothing.
    """
    path = f"{directory}/{NAME}"
    with reached(directory, "read"):
        document = files.read_document(path)
    if document is None:
        return None
    try:
        context = document["context"]
        return Claim(
            job=str(document["job"]),
            uid=str(document["uid"]),
            attempt=int(document["attempt"]),
            context=None if context is None else int(context),
            earlier=tuple(str(uid) for uid in document.get("earlier", [])),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise files.GarbledFileError(f"{path} is garbled ({error!r})") from error


def write(directory: str, claim: Claim) -> None:
    """Write it, over an older one. Raises CheckpointUnavailableError."""
    with reached(directory, "written"):
        tf.io.gfile.makedirs(directory)
        files.replace(f"{directory}/{NAME}", json.dumps({"version": 1, **asdict(claim)}))
