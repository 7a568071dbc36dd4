"""Tasks to start from: `--task=tftrainer.examples.mnist` runs one; docs/guide tells of the others.

Folders with a `__main__` hold programs as well, which run as a job's chief without Keras.
"""
