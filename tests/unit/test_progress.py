"""What chief and evaluator report, and what of it is stored.

Reports come out of users' containers.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tftraining_operator.api.status import CheckpointStatus, Progress, Status
from tftraining_operator.core.progress import (
    MAX_METRICS,
    Report,
    best_of,
    checkpoint_of,
    evaluation_of,
    model_of,
    news_due,
    next_write,
    number,
    parse_report,
    progress_of,
    told_by,
    write_interval,
)

from tests.unit.builders import NOW, at, stamp


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("Traceback (most recent call last):", id="a log's tail"),
        pytest.param("[1, 2]", id="a list"),
        pytest.param('"step"', id="a string"),
        pytest.param("null", id="null"),
        pytest.param('{"step": "many"}', id="a word for a step"),
        pytest.param('{"step": -1}', id="a negative step"),
        pytest.param('{"step": NaN}', id="no number"),
        pytest.param('{"step": 1e30}', id="more than 64 bits"),
        pytest.param('{"step": 9223372036854775808}', id="one more than 63 bits"),
        pytest.param('{"metrics": {"loss": "low"}}', id="a word for a metric"),
        pytest.param('{"step": ' + "9" * 5000 + "}", id="a number of 5000 digits"),
        pytest.param("[" * 50_000, id="brackets without end"),
        pytest.param('{"a":' * 5000 + "1" + "}" * 5000, id="objects in objects without end"),
        pytest.param(b"\xff\xfe\x00", id="no text at all"),
        pytest.param('{"metrics": {"\\ud800": 1}}', id="half a character in a metric's name"),
        pytest.param(
            '{"lastCheckpoint": {"step": 1, "path": "\\ud800", "time": "now"}}',
            id="half a character in a path",
        ),
    ],
)
def test_what_is_no_report_is_none(text: str | bytes) -> None:
    assert parse_report(text) is None


def test_fields_of_other_versions_are_ignored() -> None:
    report = parse_report('{"version": 9, "step": 7, "gpuTemperature": {"0": 80}}')
    assert report is not None
    assert report.step == 7


def test_no_text_of_a_report_holds_control_characters() -> None:
    evil = "a\x1b[2K\nb\x00"
    document = {
        "waitingFor": [evil],
        "unreachable": [{"task": evil, "seconds": 1, "cause": evil, "reason": evil}],
        "metrics": {evil: 1.0},
        "lastCheckpoint": {"step": 1, "path": evil, "time": evil},
    }
    report = parse_report(json.dumps(document))
    assert report is not None
    assert "\\u001b" not in report.model_dump_json()
    assert "\\n" not in report.model_dump_json()
    assert "\\u0000" not in report.model_dump_json()
    assert report.waiting_for == ["a b"]
    assert report.metrics == {"a b": 1.0}


def a_report(**fields: Any) -> Report:
    return Report(**{"step": 500, "total_steps": 1000, "steps_per_second": 25.0} | fields)


def test_progress_in_numbers_that_people_read() -> None:
    found = progress_of(a_report(metrics={"loss": 0.123456, "accuracy": 1}), None, NOW)
    assert (found.step, found.total_steps, found.percent, found.percent_text) == (
        500,
        1000,
        50,
        "50%",
    )
    assert (found.eta_seconds, found.steps_per_second, found.loss) == (20, "25", "0.1235")
    assert [(m.name, m.value) for m in found.metrics] == [("accuracy", "1"), ("loss", "0.1235")]
    assert found.updated_at == stamp()


@pytest.mark.parametrize(
    ("report", "percent"),
    [
        pytest.param(a_report(step=999), 99, id="not rounded up"),
        pytest.param(a_report(step=1500), 100, id="never more than all"),
        pytest.param(a_report(total_steps=None), None, id="of unknown length"),
        pytest.param(a_report(total_steps=0), None, id="of nothing"),
    ],
)
def test_percent(report: Report, percent: int | None) -> None:
    found = progress_of(report, None, NOW)
    assert found.percent == percent
    assert found.percent_text == (None if percent is None else f"{percent}%")


@pytest.mark.parametrize(
    ("report", "eta"),
    [
        pytest.param(a_report(), 20, id="at the present rate"),
        pytest.param(a_report(steps_per_second=None), None, id="without a rate"),
        pytest.param(a_report(steps_per_second=0.0), None, id="standing still"),
        pytest.param(a_report(steps_per_second=-1.0), None, id="going back"),
        pytest.param(a_report(steps_per_second=float("nan")), None, id="with no number"),
        pytest.param(a_report(steps_per_second=float("inf")), None, id="infinitely fast"),
        pytest.param(a_report(steps_per_second=1e-300), None, id="slower than any lifetime"),
        pytest.param(
            a_report(total_steps=2**62, steps_per_second=1e-308), None, id="beyond all numbers"
        ),
        pytest.param(a_report(step=2000), 0, id="beyond its end"),
    ],
)
def test_eta(report: Report, eta: int | None) -> None:
    assert progress_of(report, None, NOW).eta_seconds == eta


def test_the_time_moves_only_with_the_step() -> None:
    before = progress_of(a_report(step=5), None, NOW)
    same = progress_of(a_report(step=5, metrics={"loss": 1.0}), before, at(60))
    assert same.updated_at == stamp(0)
    assert progress_of(a_report(step=6), before, at(60)).updated_at == stamp(60)
    assert progress_of(a_report(step=4), before, at(60)).updated_at == stamp(60)


def test_metrics_are_bounded_in_number_and_name() -> None:
    many = {f"{i:03}" + "x" * 100: float(i) for i in range(1000)}
    found = progress_of(a_report(metrics=many), None, NOW)
    assert len(found.metrics) == MAX_METRICS
    assert Progress.model_validate(found.model_dump()) == found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(0.95312345, "0.9531", id="a share"),
        pytest.param(1e-9, "1e-09", id="tiny"),
        pytest.param(123456789.0, "1.235e+08", id="huge"),
        pytest.param(float("nan"), "nan", id="no number"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_a_checkpoint_and_an_evaluation_are_told_when_there_is_one() -> None:
    assert checkpoint_of(a_report()) is None
    assert evaluation_of(a_report(), final=True) is None
    at_7: dict[str, Any] = {"step": 7, "path": "/checkpoints/ckpt-7", "time": stamp()}
    assert checkpoint_of(a_report(last_checkpoint=at_7)) == CheckpointStatus(**at_7)
    found = evaluation_of(a_report(metrics={"accuracy": 0.5}), final=True)
    assert found is not None
    assert (found.step, found.final, found.metrics[0].value) == (500, True, "0.5")


def a_status(step: int, seconds: float, **fields: Any) -> Status:
    return Status(progress=Progress(step=step, updated_at=stamp(seconds)), **fields)


@pytest.mark.parametrize(
    ("before", "after", "now", "due"),
    [
        pytest.param(Status(), a_status(1, 0), 0, None, id="the first is written at once"),
        pytest.param(a_status(1, 0), a_status(2, 3), 3, 5, id="the next waits for its 5 s"),
        pytest.param(a_status(1, 0), a_status(2, 5), 5, None, id="and then is written"),
        pytest.param(
            a_status(1, 0), a_status(2, 1, restarts=1), 1, None, id="what says more waits for none"
        ),
        pytest.param(
            a_status(1, 0),
            a_status(1, 0, last_checkpoint=CheckpointStatus(step=1, path="/c", time=stamp())),
            2,
            5,
            id="a checkpoint is progress",
        ),
    ],
)
def test_progress_alone_is_written_at_most_every_five_seconds(
    before: Status, after: Status, now: float, due: float | None
) -> None:
    assert next_write(before, after, at(now)) == (None if due is None else at(due))


def percent(value: int, seconds: float = 0, **fields: Any) -> Status:
    progress = Progress(step=value, percent=value, updated_at=stamp(seconds))
    return Status(progress=progress, **fields)


CHECKPOINT = CheckpointStatus(step=1, path="/c", time=stamp())


@pytest.mark.parametrize(
    ("after", "due"),
    [
        pytest.param(percent(2, 9), 50, id="a percent waits for its turn"),
        pytest.param(percent(1, 9), 300, id="less than a percent waits for five minutes"),
        pytest.param(a_status(2, 9), 50, id="steps of a training without an end"),
        pytest.param(percent(1, last_checkpoint=CHECKPOINT), 50, id="a checkpoint"),
        pytest.param(percent(1, restarts=1), None, id="what says more waits for none"),
    ],
)
def test_where_a_thousand_jobs_report_each_is_written_less_often(
    after: Status, due: float | None
) -> None:
    found = next_write(percent(1), after, at(9), write_interval(1000))
    assert found == (None if due is None else at(due))


@pytest.mark.parametrize(
    ("jobs", "seconds"),
    [
        pytest.param(1, 5, id="one"),
        pytest.param(100, 5, id="as many as the budget allows"),
        pytest.param(10_000, 500, id="twenty writes a second of all together"),
    ],
)
def test_the_budget_is_that_of_all_jobs(jobs: int, seconds: float) -> None:
    assert write_interval(jobs) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("report", "due"),
    [
        pytest.param(a_report(step=2, total_steps=100), 50, id="a percent"),
        pytest.param(a_report(step=1, total_steps=100), 300, id="none"),
        pytest.param(
            a_report(
                step=1,
                total_steps=100,
                last_checkpoint={"step": 1, "path": "/c", "time": stamp()},
            ),
            50,
            id="a checkpoint",
        ),
    ],
)
def test_a_report_is_due_when_its_status_may_be_written(report: Report, due: float) -> None:
    told = told_by(percent(1))
    assert told is not None
    assert news_due(told, report, write_interval(1000)) == at(due)


_NUMBERS = st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.none()
_DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "step": st.integers(0, 2**63) | _NUMBERS,
        "totalSteps": st.integers(0, 2**63) | _NUMBERS,
        "stepsPerSecond": _NUMBERS,
        "metrics": st.dictionaries(st.text(max_size=80), st.floats() | st.integers(), max_size=40),
        "phase": st.text(max_size=80),
        "lastCheckpoint": st.fixed_dictionaries(
            {"step": st.integers(0, 2**64), "path": st.text(), "time": st.text()}
        ),
        "model": st.fixed_dictionaries(
            {
                "step": st.integers(0, 2**64),
                "path": st.text(),
                "formats": st.lists(st.text(max_size=80), max_size=10),
            }
        ),
        "best": st.fixed_dictionaries(
            {
                "step": st.integers(0, 2**64),
                "metric": st.text(max_size=80),
                "value": _NUMBERS,
                "path": st.text(),
                "exportPath": st.text() | st.none(),
            }
        ),
    },
)


@given(_DOCUMENTS)
def test_whatever_is_reported_is_refused_or_fits_the_status(document: dict[str, Any]) -> None:
    report = parse_report(json.dumps(document))
    if report is None:
        return
    status = Status(
        progress=progress_of(report, None, NOW),
        last_checkpoint=checkpoint_of(report),
        model=model_of(report),
        best=best_of(report),
        evaluation=evaluation_of(report, final=False),
    )
    text = json.dumps(status.as_dict()).encode()
    assert Status.model_validate_json(text) == status
    assert len(text) < 32_000
    assert status.progress is not None
    assert all(
        value is None or value < 2**63
        for value in (
            status.progress.step,
            status.progress.total_steps,
            status.progress.eta_seconds,
        )
    )
