"""What is read out of the record of an upgrade, and its tables."""

import pytest

from e2e.recording import Sample
from e2e.scenarios.upgrade.report import (
    Effect,
    VersionChange,
    damage,
    longest_pause,
    lost_steps,
    markdown,
    new_steps,
)


def samples(steps: list[int]) -> list[Sample]:
    return [Sample(at, "uid", "training", step, None) for at, step in enumerate(steps)]


@pytest.mark.parametrize(
    ("steps", "lost"),
    [
        pytest.param([], 0, id="nothing was reported"),
        pytest.param([5, 5, 9, 12], 0, id="on and on"),
        pytest.param([5, 9, 7, 12], 2, id="back once"),
        pytest.param([9, 7, 8, 2], 8, id="back twice"),
    ],
)
def test_lost_steps(steps: list[int], lost: int) -> None:
    assert lost_steps(samples(steps)) == lost


def test_new_steps() -> None:
    assert new_steps(samples([5, 5, 9, 7, 8])) == [2, 4]


@pytest.mark.parametrize(
    ("times", "pause"),
    [
        pytest.param([], 0, id="no moment"),
        pytest.param([3.0], 0, id="one"),
        pytest.param([1.0, 2.0, 7.0, 8.5], 5, id="the longest of several"),
    ],
)
def test_longest_pause(times: list[float], pause: float) -> None:
    assert longest_pause(times) == pause


def test_the_tables_say_what_each_change_cost_each_job() -> None:
    effect = Effect("mnist", 3, ("mnist-chief-0",), 1, 10, 25, 4, 1.25, 6.04)
    nothing = VersionChange("none", 20.0, (), (effect,))
    upgrade = VersionChange("helm upgrade", 14.26, (0.5, 0.125), (effect,))
    text = markdown([nothing, upgrade])
    assert "| none | 20.0 s | 0 | - |" in text
    assert "| helm upgrade | 14.3 s | 2 | 0.50 s, 0.12 s |" in text
    assert "| helm upgrade | `mnist` | 3 | 1 | 1 | 10 to 25 | 4 | 1.2 s | 6.0 s |" in text


@pytest.mark.parametrize(
    ("replaced", "restarts", "lost", "said"),
    [
        pytest.param((), 0, 0, [], id="none"),
        pytest.param(
            ("mnist-chief-0", "mnist-ps-0"),
            0,
            0,
            ["helm upgrade: mnist: pods replaced or restarted: mnist-chief-0, mnist-ps-0"],
            id="pods replaced",
        ),
        pytest.param((), 2, 0, ["helm upgrade: mnist: restarts counted: 2"], id="restarts"),
        pytest.param((), 0, 7, ["helm upgrade: mnist: steps lost: 7"], id="steps lost"),
    ],
)
def test_damage_is_named_by_change_and_job(
    replaced: tuple[str, ...], restarts: int, lost: int, said: list[str]
) -> None:
    unharmed = Effect("alone", 1, (), 0, 10, 25, 0, 1.25, 6.04)
    effect = Effect("mnist", 3, replaced, restarts, 10, 25, lost, 1.25, 6.04)
    changes = [
        VersionChange("none", 20.0, (), (unharmed,)),
        VersionChange("helm upgrade", 14.0, (), (unharmed, effect)),
    ]
    assert damage(changes) == said
