"""history.csv: every step's loss, with all its digits."""

from pathlib import Path

import pytest
from tftrainer.errors import CheckpointUnavailableError
from tftrainer.training.history import History

EXACT = 0.1 + 0.2


def test_a_loss_is_read_back_as_it_was(tmp_path: Path) -> None:
    history = History(str(tmp_path), 0)
    history.add(1, EXACT)
    history.add(2, 1e-7)
    history.write()

    header, first, second = (tmp_path / "history.csv").read_text().splitlines()
    assert header == "step,loss"
    assert [float(row.partition(",")[2]) for row in (first, second)] == [EXACT, 1e-7]


def test_steps_that_are_made_again_replace_those_that_were_lost(tmp_path: Path) -> None:
    first = History(str(tmp_path), 0)
    for step in range(1, 6):
        first.add(step, 0.5)
    first.write()

    # From the checkpoint of step 3.
    second = History(str(tmp_path), 3)
    second.add(4, 0.25)
    second.write()
    assert (tmp_path / "history.csv").read_text() == "step,loss\n1,0.5\n2,0.5\n3,0.5\n4,0.25\n"


def test_rows_that_cannot_be_written_or_read_are_an_error_of_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    history = History(str(folder), 0)
    history.add(1, EXACT)
    with pytest.raises(CheckpointUnavailableError, match=r"history\.csv in .* cannot be written"):
        history.write()

    (tmp_path / "history.csv").mkdir()
    with pytest.raises(CheckpointUnavailableError, match=r"history\.csv in .* cannot be read"):
        History(str(tmp_path), 0)
