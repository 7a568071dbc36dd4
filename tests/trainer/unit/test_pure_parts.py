"""Rates, pacing, watchdog: given times and steps, what follows."""

import math

import pytest
from tftrainer.cluster import Role
from tftrainer.pacing import steps_per_call
from tftrainer.progress import Snapshot, describe
from tftrainer.rates import StepRate
from tftrainer.watchdog import Watchdog


def test_the_rate_counts_from_the_end_of_tracing() -> None:
    rate = StepRate(0.0, 0)
    for now in (1.0, 20.0):
        rate.add(now, 0)
    rate.add(21.0, 50)
    rate.add(22.0, 100)

    assert rate.recent == pytest.approx(50)
    assert rate.overall == pytest.approx(50)


def test_the_recent_rate_forgets_what_is_long_ago() -> None:
    rate = StepRate(0.0, 0, window_seconds=10)
    step = 0
    for now in range(1, 41):
        step += 10 if now <= 20 else 100
        rate.add(float(now), step)

    assert rate.recent == pytest.approx(100)
    assert rate.overall == pytest.approx((20 * 10 + 20 * 100) / 40)


def test_there_is_no_rate_before_a_step() -> None:
    assert StepRate(0.0, 7).recent is None


@pytest.mark.parametrize(
    ("current", "speed", "wanted"),
    [
        pytest.param(1, None, 1, id="an unknown speed changes nothing"),
        pytest.param(1, 1000.0, 4, id="it grows at most fourfold"),
        pytest.param(100, 150.0, 150, id="it follows the speed"),
        pytest.param(100, 0.2, 1, id="a slow step goes alone"),
        pytest.param(9000, 1e9, 10_000, id="it has a limit"),
    ],
)
def test_steps_follow_the_speed(current: int, speed: float | None, wanted: int) -> None:
    assert steps_per_call(current, speed, 1.0) == wanted


def test_the_watchdog_gives_the_first_step_more_time() -> None:
    watchdog = Watchdog(stall_seconds=10, first_step_seconds=60)
    assert watchdog.verdict(1000.0) is None
    watchdog.start(1000.0, step=500)

    assert watchdog.verdict(1059.0) is None
    assert "step 500" in (watchdog.verdict(1060.0) or "")

    watchdog.note(1059.0, step=501)
    assert watchdog.verdict(1068.0) is None
    watchdog.note(1068.0, step=501)
    assert "no step for 10 s" in (watchdog.verdict(1069.0) or "")

    watchdog.allow_more(1068.0)
    assert watchdog.verdict(1127.0) is None
    watchdog.expect(1127.0)
    assert watchdog.verdict(1137.0) is not None

    watchdog.stop()
    assert watchdog.verdict(9999.0) is None


def test_a_line_says_how_far_it_is() -> None:
    snapshot = Snapshot(
        role=Role.CHIEF,
        step=1200,
        total_steps=3000,
        steps_per_second=41.2,
        metrics={"accuracy": 0.95, "loss": 0.17},
    )

    assert describe(snapshot) == "step 1200/3000 (40%), 41.2 steps/s, loss 0.17, accuracy 0.95"


def test_a_loss_that_is_not_finite_is_left_out_of_the_document() -> None:
    snapshot = Snapshot(role=Role.CHIEF, metrics={"loss": math.nan, "accuracy": 0.5})

    assert snapshot.document()["metrics"] == {"accuracy": 0.5}
