"""Reads and writes epoch.json in the checkpoint directory: the end of an epoch is under way.

The checkpoint of an epoch is saved first; then come validation, --keep-best and the callbacks,
which may change what the next checkpoint holds, such as the learning rate. A chief that ends before
that leaves this file, and the next one does it all again. Written by recorder, read by resume.
"""

import contextlib
import json
import logging
from collections.abc import Mapping

import tensorflow as tf

from tftrainer.saving import files
from tftrainer.saving.checkpoints import reached

_LOG = logging.getLogger(__name__)
_NAME = "epoch.json"


def begin(directory: str, step: int, metrics: Mapping[str, float]) -> None:
    """Write it, before the checkpoint of this step; the metrics are those of the epoch."""
    document = {"version": 1, "step": step, "metrics": dict(metrics)}
    with reached(directory, "written", what=_NAME):
        files.replace(f"{directory}/{_NAME}", json.dumps(document))


def finish(directory: str) -> None:
    """Delete it: all that is done at the end of an epoch is done, and saved."""
    with reached(directory, "deleted", what=_NAME), contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(f"{directory}/{_NAME}")


def unfinished(directory: str, step: int) -> dict[str, float] | None:
    """Return the metrics of the epoch that ends with this step, if its end was under way."""
    try:
        with reached(directory, "read", what=_NAME):
            document = files.read_document(f"{directory}/{_NAME}")
        if document is None or document["step"] != step:
            return None
        return {str(name): float(value) for name, value in document["metrics"].items()}
    except (files.GarbledFileError, AttributeError, KeyError, TypeError, ValueError) as error:
        _LOG.warning("%s/%s is garbled (%r); ignoring it", directory, _NAME, error)
        return None
