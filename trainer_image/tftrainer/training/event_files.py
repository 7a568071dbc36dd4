"""Writes TensorBoard's event files: records, each with its length and checksums. No threads.

Used by tensorboard. TensorFlow has writers of its own, but they hold the interpreter lock while
they flush, and with it the watchdog, for as long as a volume hangs.
"""

import os
import socket
import struct
import time
from pathlib import Path
from typing import IO, Any

import tensorflow as tf

_VERSION = "brain.Event:2"
# Castagnoli's polynomial with its bits reversed, and what TensorFlow's mask adds.
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_BITS = 0xFFFFFFFF


def record(event: Any) -> bytes:  # noqa: ANN401 -- a protocol buffer of TensorFlow
    """Return what an event is in a file."""
    data: bytes = event.SerializeToString()
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


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


def _checksum(data: bytes) -> bytes:
    crc = _BITS
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= _BITS
    rotated = (crc >> 15 | crc << 17) & _BITS
    return struct.pack("<I", (rotated + _MASK) & _BITS)


def _of_byte(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)
    return number


_TABLE = tuple(map(_of_byte, range(256)))
