"""Writes TensorBoard's event files. No threads; used by tensorboard.

TensorFlow has writers of its own, but they hold the interpreter lock while they flush, and with it
the watchdog, for as long as a volume hangs.
"""

import io
import os
import socket
import time
from pathlib import Path
from typing import IO, Any

import tensorflow as tf
from tensorboard.summary.writer.record_writer import RecordWriter

_VERSION = "brain.Event:2"


def record(event: Any) -> bytes:  # noqa: ANN401 -- a protocol buffer of TensorFlow
    """Return what an event is in a file."""
    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()


def begun(directory: str) -> IO[bytes]:
    """Begin a file in a directory that may not exist yet; raises OSError or tf.errors.OpError."""
    now = time.time()
    name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}"
    if "://" in directory:
        tf.io.gfile.makedirs(directory)
        file: IO[bytes] = tf.io.gfile.GFile(f"{directory}/{name}", "wb")
    else:
        # As TensorFlow's file holds the interpreter lock while it is written to.
        Path(directory).mkdir(parents=True, exist_ok=True)
        file = Path(directory, name).open("wb")  # noqa: SIM115 -- it stays open
    file.write(record(tf.compat.v1.Event(wall_time=now, file_version=_VERSION)))
    return file
