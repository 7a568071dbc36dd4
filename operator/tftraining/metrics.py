"""The values that a job reports, as records: what `tftj metrics` prints. Pure.

The API has the newest values of each kind, not their history, which is in the TensorBoard logs.
"""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from tftraining_operator.api.status import Metric, Status


class MetricRecord(TypedDict):
    """One value."""

    source: str
    """training, evaluation (of the evaluator), model (the exported one) or best."""
    step: int
    """Training step at which it was measured."""
    name: str
    """Name of the metric, such as loss."""
    value: float
    """The value; it may be nan or inf."""


Records = list[MetricRecord]


def records(status: Status) -> Records:
    """Return the newest values of a job; [] before it has reported any."""
    return list(_records(status))


def _records(status: Status) -> Iterator[MetricRecord]:
    if (progress := status.progress) is not None:
        yield from _of("training", progress.step, progress.metrics)
    if (evaluation := status.evaluation) is not None:
        yield from _of("evaluation", evaluation.step, evaluation.metrics)
    if (model := status.model) is not None:
        yield from _of("model", model.step, model.metrics)
    if (best := status.best) is not None:
        yield from _of("best", best.step, [best.metric])


def _of(source: str, step: int, metrics: Sequence[Metric]) -> Iterator[MetricRecord]:
    for metric in metrics:
        yield MetricRecord(source=source, step=step, name=metric.name, value=float(metric.value))
