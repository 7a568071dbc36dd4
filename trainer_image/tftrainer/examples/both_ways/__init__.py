"""Parameter server training, both ways: the same digits by Keras fit and by a custom loop.

As a task (`--task=tftrainer.examples.both_ways`) this is the digits' model and dataset, for which
`--mode=fit` or the default mode chooses the way. As a program (`python -m
tftrainer.examples.both_ways`) it shows what the custom loop is made of: a dataset for every worker,
scheduled functions, and a variable on a ps.
"""

from tftrainer.examples.mnist import dataset, model

__all__ = ["dataset", "model"]
