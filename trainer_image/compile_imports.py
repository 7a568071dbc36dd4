"""Byte-compiles what training imports, and only that; run once, when the image is built.

The container's user may not write, so without this every start would pay for all of it. Of the
packages' modules less than half is ever imported; the bytecode of the rest would be 50 MB. Checked
by hash of the source, never by time, so that two builds give the same files.
usage: compile_imports.py (by the virtual environment's own Python)
"""

import importlib
import os
import py_compile
import sys
import tempfile
from pathlib import Path

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
_ALSO = (
    "grpc",
    "prometheus_client",
    "tensorboard.main",
    "tensorboard.plugins.hparams.hparams_plugin",
)


def main() -> None:
    """Import, train and save once, and compile the sources of all that was imported by then."""
    os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name in _ALSO:
        importlib.import_module(name)
    _train()
    root = Path(sys.prefix)
    for module in list(sys.modules.values()):
        source = Path(getattr(module, "__file__", None) or "")
        if source.suffix == ".py" and source.is_relative_to(root):
            py_compile.compile(str(source), doraise=True, invalidation_mode=_UNCHECKED)


def _train() -> None:
    """Do what imports late: fit, evaluate, checkpoints, the two formats of whole models."""
    import tensorflow as tf  # noqa: PLC0415 -- reads the environment

    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    data = tf.data.Dataset.from_tensor_slices((tf.zeros([4, 2]), tf.zeros([4, 1]))).batch(2)
    with tempfile.TemporaryDirectory() as folder:
        model.fit(data, verbose=0, callbacks=[tf.keras.callbacks.TensorBoard(folder)])
        model.evaluate(data, verbose=0)
        path = tf.train.Checkpoint(model=model).write(f"{folder}/checkpoint")
        tf.train.Checkpoint(model=model).read(path)
        model.save(f"{folder}/model")
        tf.keras.models.load_model(f"{folder}/model")
        model.save(f"{folder}/model.keras")
        tf.keras.models.load_model(f"{folder}/model.keras")


if __name__ == "__main__":
    main()
