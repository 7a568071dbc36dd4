"""Trains TensorFlow models with TFTrainingJobs: the Python client, and the command line in `cli`.

    from tftraining import TFTrainingClient

    client = TFTrainingClient()
    job = client.train("task.py", workers=2, checkpoint="my-claim")
    client.wait(job.name)

It needs the operator's models and rules (`tftraining_operator.api` and `core`), never its process.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tftraining_operator.api.status import Status
    from tftraining_operator.api.types import Spec, Strategy

    from tftraining.aio import AsyncTFTrainingClient
    from tftraining.client import TFTrainingClient
    from tftraining.errors import (
        AlreadyExistsError,
        InputError,
        NotFoundError,
        TFTrainingError,
        TimedOutError,
        UnreachableError,
    )
    from tftraining.job import JobFailedError, TrainingJob

_MODULES = {
    "AlreadyExistsError": "tftraining.errors",
    "AsyncTFTrainingClient": "tftraining.aio",
    "InputError": "tftraining.errors",
    "JobFailedError": "tftraining.job",
    "NotFoundError": "tftraining.errors",
    "Spec": "tftraining_operator.api.types",
    "Status": "tftraining_operator.api.status",
    "Strategy": "tftraining_operator.api.types",
    "TFTrainingClient": "tftraining.client",
    "TFTrainingError": "tftraining.errors",
    "TimedOutError": "tftraining.errors",
    "TrainingJob": "tftraining.job",
    "UnreachableError": "tftraining.errors",
}
"""Where each name comes from. Imported when used: `tftj --help` must not wait for all of it."""

__all__ = [
    "AlreadyExistsError",
    "AsyncTFTrainingClient",
    "InputError",
    "JobFailedError",
    "NotFoundError",
    "Spec",
    "Status",
    "Strategy",
    "TFTrainingClient",
    "TFTrainingError",
    "TimedOutError",
    "TrainingJob",
    "UnreachableError",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
