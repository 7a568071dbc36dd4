"""Prints how often each example was trained on, by the newest checkpoints. Run by trainer Python.

`seen.py FOLDER...` prints one line a folder: the counts of all examples, as JSON.
"""

import json
import sys

import tensorflow as tf


def counts(checkpoint: str) -> list[int]:
    """Return how often each example was trained on."""
    reader = tf.train.load_checkpoint(checkpoint)
    (name,) = (each for each in reader.get_variable_to_shape_map() if "/seen/" in each)
    found: list[int] = reader.get_tensor(name).tolist()
    return found


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(json.dumps(counts(tf.train.latest_checkpoint(folder))), flush=True)
