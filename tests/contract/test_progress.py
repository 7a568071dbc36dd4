"""The operator reads every report of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tftraining_operator.core.progress import (
    Report,
    best_of,
    checkpoint_of,
    evaluation_of,
    model_of,
    parse_report,
    progress_of,
)

from tests.unit.builders import NOW

REPORTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "progress.json").read_text()
)


def report(name: str) -> Report:
    found = parse_report(json.dumps(REPORTS[name]))
    assert found is not None
    return found


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_that_the_operator_reads_is_lost(name: str) -> None:
    read = report(name).model_dump(by_alias=True)
    assert read.items() <= REPORTS[name].items()
    unread = {"version", "role", "attempt", "phase", "updatedAt"}
    # For people and for /metrics; no decision hangs on them.
    unread |= {"examplesPerSecond", "workers", "queueDepth"}
    assert set(read) == set(REPORTS[name]) - unread


def test_training_becomes_progress() -> None:
    found = progress_of(report("training"), None, NOW)
    assert (found.step, found.total_steps, found.percent_text) == (1200, 3000, "40%")
    assert (found.eta_seconds, found.steps_per_second, found.loss) == (44, "41.5", "0.1742")
    saved = checkpoint_of(report("training"))
    assert saved is not None
    assert saved.model_dump() == REPORTS["training"]["lastCheckpoint"]


def test_waiting_has_no_progress_yet() -> None:
    waiting = report("waiting")
    assert waiting.waiting_for == ["worker-1", "ps-0", "ps-1"]
    assert (waiting.step, waiting.total_steps) == (0, None)
    assert checkpoint_of(waiting) is None


def test_those_that_do_not_answer_are_named_with_their_silence() -> None:
    (hung,) = report("resumed, and a worker hangs").unreachable
    assert (hung.task, hung.seconds, hung.cause) == ("worker-3", 12.3, "TimedOut")
    assert "does not answer" in hung.reason
    assert hung.address == "198.18.0.12"
    assert report("resumed, and a worker hangs").resumed_step == 1000


def test_a_peer_that_was_not_asked_is_told_apart_from_one_that_refused() -> None:
    causes = {peer.task: peer.cause for peer in report("waiting").unreachable}
    assert causes == {"worker-1": "NotResolved", "ps-0": "Refused", "ps-1": "NotAsked"}


def test_the_report_of_a_trainer_without_causes_and_addresses_is_read() -> None:
    old = {**REPORTS["waiting"], "unreachable": [{"task": "ps-0", "seconds": 1, "reason": "x"}]}
    read = parse_report(json.dumps(old))
    assert read is not None
    assert [(peer.cause, peer.address) for peer in read.unreachable] == [("", None)]


def test_evaluating_becomes_an_evaluation() -> None:
    found = evaluation_of(report("evaluating"), final=False)
    assert found is not None
    assert (found.step, {m.name: m.value for m in found.metrics}) == (
        1000,
        {"accuracy": "0.9642", "loss": "0.1201"},
    )


def test_done_is_all_of_it() -> None:
    found = progress_of(report("done"), None, NOW)
    assert (found.percent, found.eta_seconds) == (100, 0)
    model = model_of(report("done"))
    assert model is not None
    assert (model.step, model.path) == (3000, "/checkpoints/export/3000")
    assert (model.formats, len(model.metrics)) == (["saved_model", "keras"], 2)
    assert model_of(report("training")) is None
    best = best_of(report("done"))
    assert best is not None
    assert (best.metric.name, best.metric.value, best.step) == ("val_loss", "0.0712", 2000)
    assert best.export_path == "/checkpoints/export/best/2000"
