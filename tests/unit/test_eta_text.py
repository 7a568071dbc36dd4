from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tftraining_operator.core.progress import Report, progress_of
from tftraining_operator.core.times import eta_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0, "0s", id="nothing to go"),
        pytest.param(45, "45s", id="seconds"),
        pytest.param(59, "59s", id="the last second without minutes"),
        pytest.param(60, "1m", id="a unit that is 0 is left out"),
        pytest.param(200, "3m20s", id="minutes and seconds"),
        pytest.param(3599, "59m59s", id="the last second without hours"),
        pytest.param(3600, "1h", id="an hour"),
        pytest.param(3659, "1h", id="the third unit is cut off, not the second one skipped"),
        pytest.param(7500, "2h5m", id="hours and minutes"),
        pytest.param(86399, "23h59m", id="the last second without days"),
        pytest.param(86400, "1d", id="a day"),
        pytest.param(93600, "1d2h", id="days and hours"),
        pytest.param(100 * 365 * 86400 - 1, "36499d23h", id="the longest that is told"),
    ],
)
def test_a_time_to_go_is_told_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert eta_text(seconds) == text


@pytest.mark.parametrize(
    ("total", "rate", "seconds", "text"),
    [
        pytest.param(1000, 4.5, 200, "3m20s", id="steps and a rate"),
        pytest.param(100, 4.5, 0, "0s", id="the last step is done"),
        pytest.param(None, 4.5, None, None, id="no total"),
        pytest.param(1000, None, None, None, id="no rate"),
        pytest.param(1000, 0.0, None, None, id="no speed"),
        pytest.param(1000, 1e-9, None, None, id="centuries"),
        pytest.param(2**63 - 1, 5e-324, None, None, id="more than a number holds"),
    ],
)
def test_progress_has_the_seconds_and_their_text_or_neither(
    total: int | None, rate: float | None, seconds: int | None, text: str | None
) -> None:
    report = Report(step=100, total_steps=total, steps_per_second=rate)
    progress = progress_of(report, None, NOW)
    assert (progress.eta_seconds, progress.eta_text) == (seconds, text)
