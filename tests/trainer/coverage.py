"""What the task of `make bench-data` says that it was trained on."""

import numpy as np
import tensorflow as tf
from harness import ROOT

TASK = f"--task={ROOT / 'bench/data/task.py'}"


def seen(checkpoint: str) -> np.ndarray:
    """How often each of its examples was trained on, by a checkpoint (int64, no other axes)."""
    reader = tf.train.load_checkpoint(checkpoint)
    (name,) = (each for each in reader.get_variable_to_shape_map() if "/seen/" in each)
    return np.asarray(reader.get_tensor(name))
