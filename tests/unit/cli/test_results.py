"""What commands print for programs."""

from __future__ import annotations

import json

import pytest
from tftraining.cli.app import app
from tftraining.cli.commands import options
from tftraining.client import TFTrainingClient
from tftraining_operator.api.status import Metric, Progress
from typer.testing import CliRunner

from tests.unit.builders import a_job, stamp
from tests.unit.client.connection import Stored


def no_json(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """The cluster of every command."""
    stored = Stored()
    monkeypatch.setattr(
        options, "client", lambda _namespace, _context: TFTrainingClient(cluster=stored.cluster())
    )
    return stored


def test_metrics_are_json_also_of_a_training_that_diverges(stored: Stored) -> None:
    metrics = [Metric(name=name, value=name) for name in ("nan", "inf", "-inf", "0.5")]
    progress = Progress(step=50, metrics=metrics, updated_at=stamp())
    stored.add_job(a_job().with_status(progress=progress).raw)
    done = CliRunner().invoke(app, ("metrics", "mnist", "-o", "json"))
    values = [each["value"] for each in json.loads(done.stdout, parse_constant=no_json)]
    assert values == ["nan", "inf", "-inf", 0.5]
