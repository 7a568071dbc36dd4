"""Evaluates the newest checkpoint of each folder named. Run by the trainer's Python.

`evaluate.py TASK BATCH FOLDER...` prints the accuracy on the held-out examples, one line a folder.
"""

import importlib
import sys
from pathlib import Path

import tensorflow as tf
from tftrainer import Context

if __name__ == "__main__":
    path, batch, *folders = sys.argv[1:]
    sys.path.insert(0, str(Path(path).parent))
    task = importlib.import_module(Path(path).stem)
    model = task.model()
    examples = task.dataset("evaluation", Context(int(batch)))
    for folder in folders:
        checkpoint = tf.train.Checkpoint(model=model)
        checkpoint.read(tf.train.latest_checkpoint(folder)).expect_partial()
        print(model.evaluate(examples, verbose=0, return_dict=True)["accuracy"], flush=True)
