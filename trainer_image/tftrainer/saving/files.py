"""Reads and replaces small files in the checkpoint directory, through TensorFlow's file systems."""

import json
from typing import Any

import tensorflow as tf


class GarbledFileError(Exception):
    """A file is there, but does not hold what was written; the text names it."""


def replace(path: str, text: str) -> None:
    """Write a file atomically, so that no reader sees a partial one."""
    with tf.io.gfile.GFile(f"{path}.new", "w") as file:
        file.write(text)
    tf.io.gfile.rename(f"{path}.new", path, overwrite=True)


def read(path: str) -> str:
    """Read a file; raises tf.errors.OpError."""
    with tf.io.gfile.GFile(path) as file:
        text: str = file.read()
        return text


def read_document(path: str) -> dict[str, Any] | None:
    """Read a JSON object; None if there is no such file, and only then.

    Raises tf.errors.OpError if the file cannot be read, GarbledFileError if it is no JSON object.
    """
    try:
        document = json.loads(read(path))
    except tf.errors.NotFoundError:
        return None
    except ValueError as error:
        raise GarbledFileError(f"{path} is garbled ({error})") from error
    if not isinstance(document, dict):
        raise GarbledFileError(f"{path} is garbled (no JSON object)")
    return document
