"""Reads and replaces small files in the checkpoint directory, through TensorFlow's file systems."""

import tensorflow as tf


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
