"""Divides the cores among the logical devices that a CPU is split into."""

import os

_VARIABLE = "TF_NUM_INTRAOP_THREADS"
"""With which TensorFlow's users say among how many threads it divides an operation."""


def threads_of_each(devices: int) -> int:
    """Return among how many threads a device divides an operation, 0 to leave it to TensorFlow.

    TensorFlow's own default is all cores, for each device, where the others compute as well.
    """
    if devices == 1 or _VARIABLE in os.environ:
        return 0
    return max(1, len(os.sched_getaffinity(0)) // devices)
