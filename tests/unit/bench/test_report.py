from pathlib import Path

import pytest

from bench.training import __main__ as program
from bench.training import report
from bench.training.quality import ONE, QUESTIONS, Quality
from bench.training.report import Results
from bench.training.setups import (
    CNN_PLAIN,
    CNN_PS_1,
    CNN_PS_2,
    CNN_SEVERAL_2,
    CNN_SEVERAL_ALIKE_2,
    Setup,
)
from bench.training.speed import Speed
from tools.cluster import engine
from tools.cluster.engine import Engine
from tools.cluster.machine import look


def speeds(*values: float) -> list[Speed]:
    return [Speed(value, cpu={}, memory={}, first_step_seconds=1.0) for value in values]


def results(*two_workers: float) -> Results:
    """Three rounds in which one worker makes 1000 examples/s, and the plain process 1100."""
    return Results(
        rounds=3,
        speeds={
            CNN_PLAIN: speeds(1100, 1100, 1100),
            CNN_PS_1: speeds(1000, 1000, 2000),
            CNN_PS_2: speeds(*two_workers),
        },
    )


@pytest.mark.parametrize(
    ("two_workers", "kept"),
    [
        pytest.param((1700, 1800, 3000), True, id="the median of the rounds' ratios is enough"),
        pytest.param((1690, 1800, 3000), False, id="it is not, though its medians' ratio were"),
    ],
)
def test_a_promise_is_of_the_median_of_the_rounds(
    two_workers: tuple[float, ...], *, kept: bool
) -> None:
    found = results(*two_workers)

    assert report.kept(found) is kept


@pytest.mark.parametrize(
    ("accuracies", "kept"),
    [
        pytest.param([0.955, 0.955], [True, True], id="better"),
        pytest.param([0.940, 0.952], [True, False], id="one seed is worse, the mean by 0.4 points"),
        pytest.param([0.944, 0.944], [False, False], id="worse by 0.6 points"),
    ],
)
def test_a_mean_accuracy_may_fall_by_as_much_as_is_said_of_the_data(
    accuracies: list[float], kept: list[bool]
) -> None:
    measured = {ONE: [0.95, 0.95], "two workers": accuracies}
    found = [report.kept(Results(1, qualities=[Quality(each, measured)])) for each in QUESTIONS]

    assert found == kept


def test_an_image_above_its_limit_is_a_promise_missed() -> None:
    assert report.kept(Results(1, image_bytes=1_100_000_000))
    assert not report.kept(Results(1, image_bytes=1_100_000_001))


def test_the_page_gets_the_new_tables_in_place_of_the_old(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    sections = (
        "<!-- image -->\nold\n<!-- end of image -->\n<!-- start -->\nkept\n<!-- end of start -->\n"
    )
    page.write_text(f"before\n{sections}after\n")

    report.write(page, Results(1, image_bytes=1_063_000_000))
    once = page.read_text()
    report.write(page, Results(1, image_bytes=1_063_000_000))

    assert page.read_text() == once
    assert once.startswith("before\n<!-- image -->\n")
    assert once.endswith("<!-- start -->\nkept\n<!-- end of start -->\nafter\n")
    assert "| trainer, for CPUs | 1,063 | ≤ 1,100 | kept |" in once
    assert "old" not in once


def test_the_time_of_a_step_is_divided_among_those_who_had_it() -> None:
    """Two cores make ten steps per second each, so one step has 100 ms of a core."""

    def used(rate: float, **cores: float) -> list[Speed]:
        return [Speed(rate, cpu=cores, memory={}, first_step_seconds=1.0)]

    speeds = {
        CNN_SEVERAL_2: used(20 * 256, plain=2.0),
        CNN_PS_2: used(16 * 256, chief=0.08, ps=0.16, worker=1.68),
    }
    assert _rows(speeds) == [
        ("2 plain processes", "100.0", "100.0", "0.0", "0.0", "0.0", "0.0"),
        ("2 workers, huge pages", "125.0", "100.0", "5.0", "10.0", "5.0", "5.0"),
    ]
    assert _rows(speeds | {CNN_SEVERAL_ALIKE_2: used(25 * 256, plain=2.0)}) == [
        ("2 plain processes", "100.0", "100.0", "0.0", "0.0", "0.0", "0.0"),
        ("2 plain processes, huge pages", "80.0", "80.0", "0.0", "0.0", "0.0", "0.0"),
        ("2 workers, huge pages", "125.0", "80.0", "25.0", "10.0", "5.0", "5.0"),
    ]


def _rows(speeds: dict[Setup, list[Speed]]) -> list[tuple[str, ...]]:
    found = report.sheets(Results(1, speeds=speeds))
    (profile,) = (sheet for sheet in found if "a step" in sheet.title)
    return list(profile.rows)


def test_the_image_of_the_machines_own_engine_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 1063000000\n")
    client.chmod(0o755)
    theirs = Engine({"PATH": f"{tmp_path}:/usr/bin:/bin"}, ours=False, machine=look())
    monkeypatch.setattr(engine, "pid", lambda: None)
    monkeypatch.setattr(engine, "running", lambda _: theirs)

    assert program._image_bytes() == 1_063_000_000

    monkeypatch.setattr(engine, "running", lambda _: None)

    assert program._image_bytes() is None
