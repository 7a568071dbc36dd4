"""What the demo shows while a cluster is built: lines, and in a terminal a last line."""

from __future__ import annotations

import io

from rich.console import Console

from e2e.build_view import View, last_line, running, shown, summary
from tools.cluster.steps import Progress, State, Step

STATE = State(("Python image",), 4, (("programs", 0.61), ("trainer packages", 0.0)), 0.4, 330.0)


def a_console(*, terminal: bool = False, width: int = 80) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    return console, out


def test_the_summary_says_n_of_m_and_the_time_left() -> None:
    assert summary(STATE) == "1 of 4 done, 40%, about 6 min left"


def test_what_runs_is_named_with_its_share_if_that_is_known() -> None:
    assert running(STATE) == "programs 61%, trainer packages"


def test_without_a_terminal_each_step_is_a_line_and_the_rest_one_from_time_to_time() -> None:
    console, out = a_console()
    now = [0.0]
    view = View(console, clock=lambda: now[0])

    view.look(STATE)
    view.look(STATE)
    now[0] = 20.0
    view.look(STATE)
    view.look(STATE)

    assert out.getvalue().splitlines() == [
        "· 1 of 4 done: Python image",
        "· 1 of 4 done, 40%, about 6 min left; now: programs 61%, trainer packages",
    ]


def test_the_last_line_is_one_line_however_narrow_the_terminal_is() -> None:
    for width in (60, 80, 160):
        console, out = a_console(width=width)
        console.print(last_line(STATE))

        (line,) = out.getvalue().splitlines()
        assert "1 of 4 done, 40%" in line


def test_lines_of_others_stand_above_the_last_line_of_a_terminal() -> None:
    console, out = a_console(terminal=True)
    with shown(console, Progress([Step("programs", 60, print)])):
        console.print("local │ step 1/9")
        console.print("local │ step 2/9")

    # It is written from the first column of the last line, which was cleared.
    assert "\r\x1b[2Klocal │ step 2/9\n" in out.getvalue()
