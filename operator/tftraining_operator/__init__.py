"""The TFTrainingJob operator: one custom resource in, a trained TensorFlow model out.

`api` is what users write and read, `core` decides (pure), `controller` acts.
"""

__version__ = "0.1.0"
