"""A training goes on from a checkpoint as long as there is something left to train on."""

from dataclasses import replace

import pytest
from tftrainer.data.position import Length, Position
from tftrainer.errors import BadConfigurationError
from tftrainer.saving.resume import Resumed

OF_ANOTHER = Resumed(path="/checkpoints/ckpt-70", step=70, origin="job mnist")


def position(number: int, *missing: tuple[int, int, int]) -> Position:
    return Position(seed=1, batch_size=8, epoch_batches=20, number=number, missing=missing)


@pytest.mark.parametrize(
    "reached", [position(59), position(80, (58, 80, 2)), position(80, (40, 41, 1), (70, 74, 2))]
)
def test_what_another_training_has_left_of_these_epochs_is_trained_on(reached: Position) -> None:
    assert OF_ANOTHER.total(60, reached, 1) == 60


@pytest.mark.parametrize("reached", [position(60), position(80), position(80, (60, 70, 2))])
def test_nothing_is_left_of_epochs_that_another_training_has_made(reached: Position) -> None:
    with pytest.raises(BadConfigurationError, match="nothing is left to train"):
        OF_ANOTHER.total(60, reached, 1)


@pytest.mark.parametrize(
    ("path", "repeated"),
    [
        ("/checkpoints/ckpt-70", 5 + 4 * 8),
        ("/checkpoints/ckpt-74-before", 5),
        ("/checkpoints/ckpt-75", 5),
        ("/checkpoints/of-mine", 5),
    ],
)
def test_steps_that_were_made_while_it_was_written_count_as_repeated(
    path: str, repeated: int
) -> None:
    saved = replace(position(74, (40, 44, 1)), repeated=5)
    resumed = Resumed(path=path, step=74, saved_position=saved)
    length = Length(batch_size=8, of_epoch=20, of_pass=20)
    assert resumed.position(2, length) == replace(saved, repeated=repeated)
