"""Writes the operator's metrics into docs/guide/monitoring.md, from its registry.

`make manifests` runs it; tests/unit/tools/test_metrics_reference.py fails where the page is
outdated.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import CollectorRegistry
from tftraining_operator.controller.job_metrics import JobsCollector
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.reconcile.store import Store

from tools.pages import filled, table

PAGE = Path(__file__).parents[1] / "docs/guide/monitoring.md"

_SECTION = "operator metrics"
_SUFFIXES = {"counter": "_total", "info": "_info"}
"""What Prometheus appends to the names of some types."""


def rendered() -> str:
    """Return the page with the table in its place."""
    metrics = Metrics()
    metrics.read_jobs(Store())
    return filled(PAGE, _SECTION, table_of(_declared(metrics.registry)))


def table_of(metrics: Iterable[tuple[Metric, Iterable[str]]]) -> str:
    """Return the table of metrics with their labels."""
    head = ("metric", "type", "labels", "meaning")
    return table(head, (_row(metric, labels) for metric, labels in metrics), others="---")


def labels_of(metric: Metric) -> list[str]:
    """Return the labels that the values of a metric have."""
    found = dict.fromkeys(label for sample in metric.samples for label in sample.labels)
    return [label for label in found if label != "le"]  # the bucket of a histogram


def _declared(registry: CollectorRegistry) -> Iterator[tuple[Metric, list[str]]]:
    """Yield the metrics of the registry with their labels, but for those of the process.

    Most have no values yet that would name their labels, and the client has no public way to ask.
    """
    for collector in registry._collector_to_names:  # noqa: SLF001 - as above
        if isinstance(collector, MetricWrapperBase):
            names = list(collector._labelnames)  # noqa: SLF001 - as above
            yield from ((metric, names or labels_of(metric)) for metric in collector.collect())
        elif isinstance(collector, JobsCollector):
            for family in collector.describe():
                assert isinstance(family, GaugeMetricFamily)
                yield family, list(family._labelnames)  # noqa: SLF001 - as above
        else:
            assert isinstance(collector, ProcessCollector), collector


def _row(metric: Metric, labels: Iterable[str]) -> tuple[str, str, str, str]:
    name = metric.name + _SUFFIXES.get(metric.type, "")
    meaning = metric.documentation.replace("|", "\\|")
    return f"`{name}`", metric.type, ", ".join(f"`{label}`" for label in labels), meaning


def main() -> None:
    """Write the page."""
    PAGE.write_text(rendered())


if __name__ == "__main__":
    main()
