"""Rates, pacing, watchdog: given times and steps, what follows."""

import gc
import math
import time

import pytest
from tftrainer.config.cluster import Role
from tftrainer.exit_codes import ExitCode
from tftrainer.runtime import process
from tftrainer.runtime.progress import (
    Activity,
    Cause,
    Phase,
    Progress,
    Snapshot,
    Unreachable,
    describe,
)
from tftrainer.runtime.rates import Rate
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.watchdog import Verdict, Watchdog
from tftrainer.training.pacing import Pace, steps_per_call


def test_the_rate_counts_from_the_end_of_tracing() -> None:
    rate = Rate(0.0, 0)
    for now in (1.0, 20.0):
        rate.add(now, 0)
    rate.add(21.0, 50)
    rate.add(22.0, 100)

    assert rate.recent == pytest.approx(50)
    assert rate.overall == pytest.approx(50)


def test_the_recent_rate_forgets_what_is_long_ago() -> None:
    rate = Rate(0.0, 0, window_seconds=10)
    step = 0
    for now in range(1, 41):
        step += 10 if now <= 20 else 100
        rate.add(float(now), step)

    assert rate.recent == pytest.approx(100)
    assert rate.overall == pytest.approx((20 * 10 + 20 * 100) / 40)


def test_the_rate_of_a_training_that_stands_still_is_that_of_its_last_steps() -> None:
    rate = Rate(0.0, 0)
    for now, step in ((1.0, 0), (2.0, 50), (3.0, 100), (60.0, 100), (90.0, 100)):
        rate.add(now, step)
    assert rate.recent == pytest.approx(50)

    rate.add(103.0, 101)
    assert rate.recent == pytest.approx(1 / 100)


def test_a_rate_is_stale_when_nothing_comes_for_longer_than_a_slow_step_takes() -> None:
    quick, slow = Rate(0.0, 0), Rate(0.0, 0)
    quick.add(1.0, 50)
    slow.add(40.0, 1)

    assert not quick.is_stale(11.0)
    assert quick.is_stale(11.1)
    assert not slow.is_stale(120.0)
    assert slow.is_stale(120.1)


def test_there_is_no_rate_before_a_step() -> None:
    assert Rate(0.0, 7).recent is None


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


def test_the_pace_follows_the_speed_unless_it_is_fixed() -> None:
    free, fixed = Pace(seconds=1.0), Pace(seconds=1.0, fixed=7)
    for pace in (free, fixed):
        pace.follow(None)
        pace.follow(100.0)

    assert (free.steps, fixed.steps) == (4, 7)


def test_the_watchdog_gives_the_first_step_more_time() -> None:
    watchdog = Watchdog(stall_seconds=10, first_step_seconds=60)
    assert watchdog.verdict(1000.0) is None
    watchdog.start(1000.0, step=500)

    assert watchdog.verdict(1059.0) is None
    assert "step 500" in cause(watchdog.verdict(1060.0))

    watchdog.note(1059.0, step=501)
    assert watchdog.verdict(1068.0) is None
    watchdog.note(1068.0, step=501)
    assert "no step completed for 10 s" in cause(watchdog.verdict(1069.0))

    watchdog.allow_more(1068.0)
    assert watchdog.verdict(1127.0) is None
    watchdog.expect(1127.0)
    assert watchdog.verdict(1137.0) is not None

    watchdog.stop()
    assert watchdog.verdict(9999.0) is None


def test_the_watchdog_waits_for_callbacks_and_then_for_the_first_step() -> None:
    watchdog = Watchdog(stall_seconds=10, first_step_seconds=60)
    watchdog.start(0.0, step=0)
    watchdog.pause(1.0)
    assert watchdog.verdict(100_000.0) is None

    watchdog.expect(100_000.0)
    assert watchdog.verdict(100_059.0) is None
    assert watchdog.verdict(100_060.0) is not None


def test_the_watchdog_waits_for_input_that_is_skipped() -> None:
    watchdog = Watchdog(stall_seconds=10, first_step_seconds=60)
    watchdog.start(0.0, step=5, skips_input=True)
    watchdog.allow_more(1.0)
    watchdog.expect(2.0)
    assert watchdog.verdict(100_000.0) is None

    watchdog.note(100_000.0, step=6)
    assert watchdog.verdict(100_010.0) is not None


def test_skipping_input_goes_on_after_callbacks() -> None:
    run = Run(Progress(Snapshot(role=Role.CHIEF)), Watchdog(stall_seconds=1, first_step_seconds=1))
    now = time.monotonic()
    run.progress.update(
        phase=Phase.TRAINING, stepped_at=now, activity=Activity.INPUT, active_since=now
    )
    with run.busy(Activity.CALLBACKS):
        time.sleep(0.1)

    document = run.progress.snapshot.document(now + 60)
    assert (document["activity"], document["secondsSinceStep"]) == ("input", 0.0)


def test_time_in_callbacks_is_no_time_without_steps() -> None:
    run = Run(Progress(Snapshot(role=Role.CHIEF)), Watchdog(stall_seconds=1, first_step_seconds=1))
    began = time.monotonic()
    run.progress.update(phase=Phase.TRAINING, stepped_at=began - 30)
    with run.busy(Activity.CALLBACKS):
        during = run.progress.snapshot
        time.sleep(0.3)
    after, now = run.progress.snapshot, time.monotonic()

    short, long = (during.document(began + seconds) for seconds in (9.9, 600))
    assert (short["activity"], long["activity"]) == (None, "callbacks")
    assert short["secondsSinceStep"] == long["secondsSinceStep"] == pytest.approx(30, abs=0.1)
    assert after.document(now)["activity"] is None
    assert after.document(now)["secondsSinceStep"] == pytest.approx(30, abs=0.2)


@pytest.mark.parametrize(
    ("task", "silent_since", "now", "lost"),
    [
        pytest.param("ps-0", 1000.0, 1031.0, True, id="a ps is silent, and no step is made"),
        pytest.param("ps-0", 1000.0, 1029.0, False, id="not for long enough"),
        pytest.param("ps-0", 1010.0, 1031.0, False, id="it has answered since the last step"),
        pytest.param("ps-0", 960.0, 1005.0, False, id="steps are made in spite of it"),
        pytest.param("worker-0", 1000.0, 1031.0, False, id="a worker, which can be replaced"),
    ],
)
def test_a_ps_is_lost_that_is_silent_while_training_stands_still(
    task: str, silent_since: float, now: float, *, lost: bool
) -> None:
    watchdog = Watchdog(stall_seconds=120, first_step_seconds=600)
    watchdog.start(900.0, step=0)
    watchdog.note(1000.0, step=1)
    verdict = watchdog.verdict(now, [Unreachable(task, silent_since, Cause.TIMED_OUT, "no answer")])

    assert (verdict is not None) is lost
    if verdict is not None:
        assert verdict.code is ExitCode.PARAMETER_SERVER_LOST
        assert "ps-0 has not answered for 31 s (no answer)" in verdict.cause


def test_a_silent_ps_may_be_busy_with_what_is_slow() -> None:
    watchdog = Watchdog(stall_seconds=120, first_step_seconds=600)
    silent = [Unreachable("ps-0", 0.0, Cause.TIMED_OUT, "no answer")]
    watchdog.start(100.0, step=0)
    assert watchdog.verdict(200.0, silent) is None
    watchdog.note(201.0, step=1)
    watchdog.allow_more(202.0)
    assert watchdog.verdict(300.0, silent) is None


def cause(verdict: Verdict | None) -> str:
    return verdict.cause if verdict else "none"


def test_a_line_says_how_far_it_is() -> None:
    snapshot = Snapshot(
        role=Role.CHIEF,
        step=1200,
        total_steps=3000,
        steps_per_second=41.2,
        examples_per_second=2637.0,
        metrics={"accuracy": 0.95, "loss": 0.17},
    )

    said = "step 1200/3000 (40%), 41.2 steps/s, 2.64e+03 examples/s, loss 0.17, accuracy 0.95"
    assert describe(snapshot) == said


def test_a_loss_that_is_not_finite_is_left_out_of_the_document() -> None:
    snapshot = Snapshot(role=Role.CHIEF, metrics={"loss": math.nan, "accuracy": 0.5})

    assert snapshot.document(0.0)["metrics"] == {"accuracy": 0.5}


def test_nothing_but_ages_changes_while_training_stands_still() -> None:
    progress = Progress(Snapshot(role=Role.CHIEF))
    silent = Unreachable("worker-1", 5.0, Cause.TIMED_OUT, "no answer")
    standing = {"phase": Phase.TRAINING, "step": 7, "stepped_at": 2.0, "unreachable": (silent,)}
    progress.update(**standing)
    first = progress.snapshot.document(10.0)
    progress.update(**standing, metrics={"loss": math.nan})
    second = progress.snapshot.document(12.5)

    changed = {name for name in first if first[name] != second[name]}
    assert changed == {"secondsSinceStep", "unreachable"}
    assert (first["secondsSinceStep"], second["secondsSinceStep"]) == (8.0, 10.5)
    assert [each["seconds"] for each in (*first["unreachable"], *second["unreachable"])] == [
        5.0,
        7.5,
    ]


def test_the_time_changes_with_what_shows() -> None:
    progress = Progress(Snapshot(role=Role.CHIEF))
    before = progress.snapshot.updated_at

    assert progress.update(step=0).updated_at == before
    assert progress.update(step=1).updated_at > before


def test_a_ps_that_was_never_asked_is_not_lost() -> None:
    watchdog = Watchdog(stall_seconds=120, first_step_seconds=600)
    watchdog.start(0.0, step=0)
    watchdog.note(1.0, step=1)
    asked_never = Unreachable("ps-0", None, Cause.NOT_ASKED, "not asked yet")

    assert watchdog.verdict(100.0, [asked_never]) is None


def test_those_who_are_silent_longest_are_named_and_not_all() -> None:
    silent = tuple(
        Unreachable(f"worker-{i}", 100.0 - i, Cause.TIMED_OUT, "no answer") for i in range(40)
    )
    document = Snapshot(role=Role.CHIEF, phase=Phase.TRAINING, unreachable=silent).document(100.0)

    named = [each["task"] for each in document["unreachable"]]
    assert named == [f"worker-{i}" for i in range(39, 7, -1)]


def test_at_the_end_nobody_has_to_answer() -> None:
    silent = (Unreachable("worker-1", 0.0, Cause.TIMED_OUT, "no answer"),)
    document = Snapshot(role=Role.CHIEF, phase=Phase.DONE, unreachable=silent).document(9.0)

    assert (document["unreachable"], document["waitingFor"]) == ([], [])


def test_nothing_looks_for_garbage_while_modules_are_imported_nor_in_them_later() -> None:
    try:
        with process.without_garbage_collection():
            stays = [[]]
            assert not gc.isenabled()
        assert gc.isenabled()
        assert not any(each is stays for each in gc.get_objects())
    finally:
        gc.unfreeze()
