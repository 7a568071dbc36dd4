"""Trainer of a TFTrainingJob: runs a user's plain Keras model under any strategy.

What users may import, the public API (docs/guide/own-script.md, docs/guide/user-code.md):

- `tftrainer.Context`: the argument `context` of a task's functions, for annotations.
- `tftrainer.report(step, ...)`: a script of one's own reports its progress.
- `tftrainer.server.serve()`: such a script serves as a worker or ps, and ends when the job ends.
- `tftrainer.examples`: the tasks of the examples, as modules for --task.

All else is the trainer's own and may change. Importing this package must not import TensorFlow:
arguments are checked before it, and a server needs little of it.
"""

from tftrainer import server
from tftrainer.context import Context
from tftrainer.reporting import report

__all__ = ["Context", "report", "server"]
__version__ = "0.1.0"
