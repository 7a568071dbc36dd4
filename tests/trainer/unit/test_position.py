"""The place in the data survives being saved, other batch sizes and another number of workers."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tftrainer.data.position import ENDLESS, Length, Passes, Position

START = Position(seed=7, batch_size=64, epoch_batches=10)
NUMBERS = st.integers(0, 1000)


@st.composite
def positions(draw: st.DrawFn) -> Position:
    number = draw(st.integers(0, 40))
    first = draw(st.integers(0, number))
    end = draw(st.integers(first, number))
    step = draw(st.integers(1, 3))
    missing = ((first, end, step),) if first < end else ()
    return replace(START, number=number, data_pass=draw(NUMBERS), missing=missing)


@given(positions())
def test_what_is_saved_is_what_is_read(position: Position) -> None:
    assert Position.parse(position.text()) == position


@pytest.mark.parametrize("text", ["", '{"version": 2}'])
def test_a_text_of_no_or_another_version_is_no_position(text: str) -> None:
    assert Position.parse(text) is None


def test_a_position_of_an_older_trainer_has_no_steps() -> None:
    text = replace(START, number=9, missing=((4, 6, 1),)).text().replace("6, 1", "6")

    assert "[4, 6]" in text
    position = Position.parse(text)
    assert position
    assert position.missing == ((4, 6, 1),)


def test_who_reads_on_from_one_place_begins_at_the_first_batch_that_is_missing() -> None:
    position = replace(START, number=25, data_pass=2, index=5, missing=((12, 16, 2), (20, 21, 1)))

    found = position.without_gaps(of_pass=10)
    assert (found.number, found.data_pass, found.index, found.missing) == (12, 1, 2, ())
    assert found.repeated == 10 * 64, "13 lie behind it, of which 3 are missing"
    assert found.without_gaps(of_pass=10) == found


@given(positions(), st.sampled_from([1, 16, 48, 64, 100, 640]))
def test_with_another_batch_size_no_example_is_left_out(position: Position, size: int) -> None:
    data_pass, index = divmod(position.number, 10)
    position = replace(position, data_pass=data_pass, index=index)
    epoch_batches = -(-640 // size)
    fitted = position.fitted(
        batch_size=size, epoch_batches=epoch_batches, pass_batches=epoch_batches
    )

    def examples(number: int, size: int, epoch_batches: int) -> int:
        epoch, done = divmod(number, epoch_batches)
        return epoch * 640 + min(done * size, 640)

    reached = examples(fitted.number, size, epoch_batches)
    assert 0 <= examples(position.number, 64, 10) - reached < size
    assert 0 <= position.index * 64 - fitted.index * size < size
    again = {
        example
        for each in fitted.missing
        for batch in range(*each)
        for example in range(
            examples(batch, size, epoch_batches), examples(batch + 1, size, epoch_batches)
        )
    }
    for batch in {batch for each in position.missing for batch in range(*each)}:
        left_out = set(range(examples(batch, 64, 10), examples(batch + 1, 64, 10)))
        assert {example for example in left_out - again if example < reached} == set()


@st.composite
def resumed(draw: st.DrawFn) -> tuple[int, Position, Position]:
    """The examples of a pass, and a place in it before and after other arguments were given."""
    examples, size = draw(st.integers(100, 300)), draw(st.integers(1, 40))
    epoch, other_epoch = draw(st.integers(2, 30)), draw(st.integers(2, 30))
    other_size = draw(st.one_of(st.just(size), st.integers(1, 40)))
    number = draw(st.integers(1, 120))
    far = draw(st.integers(1, min(number, 100 // size)))
    first, step = number - far, draw(st.integers(1, 3))
    start = Passes(Position(7, size, epoch), -(-examples // size))
    position = start.position(number, [range(first, number, step)])
    fitted = position.fitted(
        batch_size=other_size,
        epoch_batches=other_epoch,
        pass_batches=-(-examples // other_size),
    )
    return examples, position, fitted


@settings(max_examples=500)
@given(resumed())
def test_where_epochs_are_no_passes_what_is_missing_is_found_again(
    drawn: tuple[int, Position, Position],
) -> None:
    examples, position, fitted = drawn

    def of(batch: int, at: Position) -> set[int]:
        passes = Passes(at, -(-examples // at.batch_size))
        data_pass, index = passes.place(batch) or (0, 0)
        first = index * at.batch_size
        end = min(first + at.batch_size, examples)
        return {data_pass * examples + each for each in range(first, end)}

    left_out = {each for gap in position.missing for n in range(*gap) for each in of(n, position)}
    again = {each for gap in fitted.missing for n in range(*gap) for each in of(n, fitted)}
    begin = min(of(fitted.number, fitted))
    assert begin <= min(of(position.number, position))
    assert {each for each in left_out if each < begin} <= again
    # The rest of a batch at each end, and one more of both sizes where a pass ends between.
    gaps = sum(len(range(*gap)) for gap in position.missing)
    assert len(again - left_out) <= gaps * (4 * fitted.batch_size + position.batch_size)


def test_an_epoch_that_has_not_ended_has_a_batch_left_whatever_its_size() -> None:
    # Of 1000 examples, batches of 60 leave out 40, and those of 300 leave out 100.
    before = Position(0, 60, 16, number=2 * 16 + 15, data_pass=2, index=15)
    fitted = before.fitted(batch_size=300, epoch_batches=3, pass_batches=3)
    assert (fitted.epoch, fitted.number, fitted.index) == (2, 2 * 3 + 2, 2)

    ended = replace(before, number=3 * 16, data_pass=3, index=0)
    again = ended.fitted(batch_size=300, epoch_batches=3, pass_batches=3)
    assert again.number == 3 * 3


def test_the_same_batches_are_the_same_position() -> None:
    position = replace(START, number=23, data_pass=2, index=3, missing=((4, 6, 1),))

    assert position.fitted(batch_size=64, epoch_batches=10, pass_batches=10) == position


@given(st.integers(0, 50), st.integers(0, 9), NUMBERS, st.integers(0, 300))
def test_the_place_of_a_batch_is_that_of_counting(
    data_pass: int, index: int, number: int, further: int
) -> None:
    start = replace(START, number=number, data_pass=data_pass, index=index)
    expected = data_pass, index
    for _ in range(further):
        expected = (expected[0], expected[1] + 1) if expected[1] < 9 else (expected[0] + 1, 0)

    assert Passes(start, 10).place(number + further) == expected


def test_a_pass_of_unknown_length_goes_on_behind_the_last_batch_that_was_seen() -> None:
    passes = Passes(replace(START, data_pass=1, index=4), None)

    assert passes.place(3) is None
    assert passes.position(0) == passes.start
    after = passes.position(9, [range(2, 4)], last=(3, 1))
    assert (after.number, after.data_pass, after.index, after.missing) == (9, 3, 2, ())


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.integers(0, 4),
    NUMBERS,
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_what_was_read_says_where_passes_of_unknown_length_have_ended(
    lengths: list[int], index: int, number: int, further: int, ahead: int
) -> None:
    start = replace(START, number=number, data_pass=3, index=index)
    batches = [
        (of_pass, place)
        for of_pass, length in enumerate(lengths, start=3)
        for place in range(index if of_pass == 3 else 0, length)
    ]
    further = min(further, len(batches))
    read = Counter(of_pass for of_pass, _ in batches[: further + ahead])
    passes = Passes(start, None)

    last = passes.read_place(number + further - 1, read)
    found = passes.position(number + further, last=last)
    left = [each for each in batches if each >= (found.data_pass, found.index)]
    assert (found.number, left) == (number + further, batches[further:])


def test_an_endless_dataset_has_one_pass_however_long_the_epochs_are() -> None:
    length = Length(batch_size=64, of_epoch=10, of_pass=None, is_endless=True)

    assert length.passes(START).batches == ENDLESS
    assert replace(length, is_endless=False).passes(START).batches is None


def test_data_is_read_before_what_lies_in_a_pass_and_before_what_is_missing() -> None:
    assert not START.needs_reading
    assert replace(START, number=3, index=3).needs_reading
    # Between two passes, of the first of which a worker has left out some batches.
    between = replace(START, number=10, data_pass=1)
    assert not between.needs_reading
    assert replace(between, missing=((5, 10, 2),)).needs_reading
