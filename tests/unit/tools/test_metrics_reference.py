"""The page of metrics has those that the operator and the trainer serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Histogram, Info

from tools import metrics_reference, training_metrics
from tools.metrics_reference import labels_of, table_of

if TYPE_CHECKING:
    from types import ModuleType


@pytest.mark.parametrize("part", [metrics_reference, training_metrics])
def test_the_page_has_what_is_served(part: ModuleType) -> None:
    assert part.PAGE.read_text() == part.rendered(), "run `make manifests`"


def test_a_row_has_the_name_by_which_a_query_asks_the_labels_and_the_help() -> None:
    registry = CollectorRegistry()
    Info("build", "Versions | of it.", registry=registry).info({"version": "1"})
    Histogram("wait_seconds", "How long.", ["reason"], registry=registry).labels("x").observe(1)
    found = ((metric, labels_of(metric)) for metric in registry.collect())
    assert table_of(found).splitlines()[2:] == [
        "| `build_info` | info | `version` | Versions \\| of it. |",
        "| `wait_seconds` | histogram | `reason` | How long. |",
    ]
