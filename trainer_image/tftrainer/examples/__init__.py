"""Tasks to start from; `--task=tftrainer.examples.mnist` runs one."""
