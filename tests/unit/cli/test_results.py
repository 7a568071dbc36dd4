"""What commands print for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from tftraining.cli.app import app
from tftraining.cli.commands import options
from tftraining.client import TFTrainingClient
from tftraining.errors import NotFoundError, UnreachableError
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Metric, Progress
from typer.testing import CliRunner

from tests.unit.builders import a_condition, a_job, a_pod, stamp
from tests.unit.client.connection import JOBS, PODS, Stored

if TYPE_CHECKING:
    from pathlib import Path


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


def test_what_fails_for_one_job_is_done_to_the_others(stored: Stored) -> None:
    stored.add_job(a_job().raw)
    done = CliRunner().invoke(app, ("delete", "absent", "mnist", "missing"))
    assert done.stdout == "mnist: deleted\n"
    assert isinstance(done.exception, NotFoundError)
    told = [text.split(" in namespace")[0] for text in str(done.exception).splitlines()]
    assert told == ["no job absent", "no job missing"]


def test_a_cluster_that_does_not_answer_is_asked_once(stored: Stored) -> None:
    stored.refusals[f"DELETE {JOBS}/a"] = UnreachableError("cannot reach the cluster")
    done = CliRunner().invoke(app, ("delete", "a", "b"))
    assert (str(done.exception), stored.asked) == ("cannot reach the cluster", [f"DELETE {JOBS}/a"])


def test_a_dry_run_prints_the_namespace_that_is_asked_for(tmp_path: Path) -> None:
    """What it prints is to be applied, which would go to that of the context."""
    task = tmp_path / "task.py"
    task.write_text("")
    for given, expected in (((), None), (("-n", "vision"), "vision")):
        done = CliRunner().invoke(app, ("submit", str(task), "--dry-run", *given))
        documents = list(yaml.safe_load_all(done.stdout))
        assert [each["metadata"].get("namespace") for each in documents] == [expected] * 2


def test_a_log_is_shown_where_not_all_of_it_can_be(stored: Stored) -> None:
    """A terminal or pipe may have an old encoding, and a program writes what it likes."""
    job = a_job()
    stored.add_job(job.raw)
    stored.objects[f"{PODS}/mnist-chief-0"] = a_pod(job.build(), Role.CHIEF).running().raw
    stored.logs["mnist-chief-0"] = ["2026-01-02T03:04:05Z caf\xe9 \u2713"]
    done = CliRunner(charset="latin-1").invoke(app, ("logs", "mnist"))
    assert (done.exception, done.stdout) == (None, "chief-0 caf\xe9 ?\n")


@pytest.mark.parametrize(
    "command", [("describe",), ("wait",), ("progress", "--once"), ("get", "-o", "wide")]
)
def test_what_is_known_of_a_job_is_shown_where_not_all_of_it_can_be(
    stored: Stored, command: tuple[str, ...]
) -> None:
    """An exit code of 1 would say that the job failed."""
    message = "caf\xe9 \u2713"
    ends = (
        a_condition(ConditionType.SUCCEEDED, message=message),
        a_condition(ConditionType.FINISHED),
    )
    job = a_job().with_status(*ends, state="Succeeded", message=message, observed_generation=1)
    stored.add_job(job.raw)
    done = CliRunner(charset="latin-1").invoke(app, (*command, "mnist"))
    assert (done.exit_code, done.exception) == (0, None)
    assert "caf\xe9 ?" in done.stdout
