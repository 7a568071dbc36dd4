"""Steps run side by side, and say how far they are and how long the rest takes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tools.cluster.steps import Progress, State, Step, longest, run_side_by_side, time_left

if TYPE_CHECKING:
    from tools.cluster.steps import Share

_SECONDS = 5.0


def nothing(_share: Share) -> None:
    """Do no work."""


A, B, C = Step("a", 60, nothing), Step("b", 30, nothing), Step("c", 20, nothing, ("a", "b"))


def test_the_rest_is_the_longest_chain() -> None:
    assert longest([A, B, C], {}) == 80
    assert longest([A, B, C], {"a": 0.5}) == 50
    assert longest([A, B, C], {"a": 1.0, "b": 0.5}) == 35
    assert longest([A, B, C], {"a": 1.0, "b": 1.0, "c": 1.0}) == 0


@pytest.mark.parametrize(
    ("rest", "elapsed", "left"),
    [
        pytest.param(100.0, 1.0, 100.0, id="nothing is known yet: as expected"),
        pytest.param(98.0, 60.0, 98.0, id="too little is done to tell the speed"),
        pytest.param(50.0, 50.0, 50.0, id="as fast as expected"),
        pytest.param(50.0, 100.0, 100.0, id="half as fast"),
        pytest.param(90.0, 1000.0, 450.0, id="a machine is never taken for slower than this"),
        pytest.param(0.0, 100.0, 0.0, id="done"),
    ],
)
def test_the_time_left_follows_the_speed_so_far(rest: float, elapsed: float, left: float) -> None:
    assert time_left(100.0, rest, elapsed) == left


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "less than a minute left"), (61, "about 1 min left"), (450, "about 8 min left")],
)
def test_the_time_left_in_words(seconds: float, text: str) -> None:
    assert State((), 1, (), 0.0, seconds).time_left == text


def test_progress_names_what_is_done_and_what_runs() -> None:
    now = [0.0]
    progress = Progress([A, B, C], clock=lambda: now[0])

    assert progress.state() == State((), 3, (), 0.0, 80.0)

    progress.report("a", 0.5)
    progress.report("a", 0.4)
    progress.report("b", 0.0)
    progress.end("b")
    now[0] = 60.0

    assert progress.state() == State(("b",), 3, (("a", 0.5),), 1 - 50 / 80, 100.0)


def test_the_speed_is_measured_from_the_first_share_on() -> None:
    now = [0.0]
    progress = Progress([A, B], clock=lambda: now[0])
    progress.report("a", 0.0)
    progress.end("b")
    now[0] = 100.0
    progress.report("a", 0.01)
    now[0] = 130.0
    progress.report("a", 0.5)

    assert progress.state().seconds_left == 30.0


def test_a_step_that_reports_all_is_done_only_when_it_ends() -> None:
    progress = Progress([A])
    progress.report("a", 1.0)

    assert progress.state().done == ()
    assert progress.state().running == (("a", 0.99),)


def test_steps_run_beside_each_other_and_after_those_they_need() -> None:
    both = threading.Barrier(2)
    ended: list[str] = []

    def meet(name: str) -> Step:
        def work(_share: Share) -> None:
            both.wait(_SECONDS)
            ended.append(name)

        return Step(name, 1, work)

    steps = [meet("a"), meet("b"), Step("c", 1, lambda _: ended.append("c"), ("a", "b"))]
    progress = Progress(steps)
    run_side_by_side(steps, progress)

    assert sorted(ended[:2]) == ["a", "b"]
    assert ended[2:] == ["c"]
    assert progress.state().share == 1.0


def test_the_first_failure_is_raised_while_others_still_run() -> None:
    end = threading.Event()

    def fail(_share: Share) -> None:
        raise RuntimeError("no network")

    steps = [
        Step("slow", 1, lambda _: end.wait(_SECONDS)),
        Step("download", 1, fail),
        Step("never", 1, lambda _: pytest.fail("begun after a failure"), ("download",)),
    ]
    with pytest.raises(RuntimeError, match="no network"):
        run_side_by_side(steps, Progress(steps))
    assert not end.is_set()
    end.set()
