"""Small files in the checkpoint directory, which may be any place that TensorFlow can write to."""

import tensorflow as tf


def replace(path: str, text: str) -> None:
    """Write a file in one move, so that nobody reads it half written."""
    with tf.io.gfile.GFile(f"{path}.new", "w") as file:
        file.write(text)
    tf.io.gfile.rename(f"{path}.new", path, overwrite=True)


def read(path: str) -> str:
    """Read a file; raises tf.errors.OpError."""
    with tf.io.gfile.GFile(path) as file:
        text: str = file.read()
        return text
