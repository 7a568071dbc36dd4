"""Every batch is given to somebody, whatever the workers do, and to nobody twice for nothing."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tftrainer.parameter_server.dealer import Dealer
from tftrainer.position import Passes, Position

START = Position(seed=1, batch_size=8, epoch_batches=20)
TOTAL = 60


def dealer(start: Position = START, batches: int | None = 20, total: int = TOTAL) -> Dealer:
    return Dealer(Passes(start, batches), total=total)


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1), st.booleans()), max_size=80))
def test_all_is_trained_on_once_by_workers_that_stop_early_and_late(
    turns: list[tuple[int, float, bool]],
) -> None:
    deals, seen, held = dealer(), Counter[int](), []
    plan = iter(turns)
    while not deals.is_complete:
        most, share, keeps = next(plan, (5, 1.0, False))
        given_out = deals.take(most, TOTAL)
        if given_out is None:
            # Those that held something back come back with all of it.
            given_out, share = held.pop(0), 1.0
        elif keeps:
            held.append(given_out)
            continue
        made = round(share * len(given_out))
        seen.update(given_out[:made])
        deals.note(given_out, made)

    assert seen == Counter(range(TOTAL))
    assert deals.position.number == TOTAL
    assert deals.position.missing == ()


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=30))
def test_a_training_that_goes_on_from_any_position_leaves_nothing_out(
    turns: list[tuple[int, bool]],
) -> None:
    deals, seen = dealer(), Counter[int]()
    for most, is_done in turns:
        given_out = deals.take(most, TOTAL)
        if given_out and is_done:
            deals.note(given_out, len(given_out))
            seen.update(given_out)
    again = dealer(deals.position)
    while (given_out := again.take(7, TOTAL)) is not None:
        again.note(given_out, len(given_out))
        seen.update(given_out)

    assert again.is_complete
    assert seen == Counter(range(TOTAL))


def test_an_epoch_is_not_exceeded_but_for_what_came_back() -> None:
    deals = dealer()
    first = deals.take(15, 20)
    assert (first, deals.take(15, 20)) == (range(15), range(15, 20))
    assert deals.take(15, 20) is None
    assert first
    deals.note(first, 10)

    assert deals.reached == 10
    assert deals.take(3, 20) == range(10, 13)
    assert deals.take(3, 20) == range(13, 15)
    assert deals.left == TOTAL - 10


def test_what_was_taken_back_counts_for_its_new_worker_alone() -> None:
    deals = dealer()
    hung = deals.take(10, TOTAL)
    assert deals.take_back() == 10
    again = deals.take(4, TOTAL)
    assert hung
    assert again == range(4)
    deals.note(hung, 10)

    assert deals.reached == 4
    assert deals.left == TOTAL


def test_the_position_names_what_is_out_and_where_the_next_batch_lies() -> None:
    deals = dealer(replace(START, number=30, data_pass=1, index=10))
    out, done = deals.take(5, TOTAL), deals.take(5, TOTAL)
    assert out
    assert done
    deals.note(done, 5)

    position = deals.position
    assert (position.number, position.data_pass, position.index) == (40, 2, 0)
    assert position.missing == ((30, 35),)


def test_without_a_known_length_the_last_place_counts() -> None:
    deals = dealer(batches=None)
    first, second = deals.take(5, TOTAL), deals.take(5, TOTAL)
    assert first
    assert second
    deals.note(second, 5, (1, 2))
    deals.note(first, 5, (0, 4))

    position = deals.position
    assert (position.number, position.data_pass, position.index) == (10, 1, 3)


def test_what_was_given_out_last_and_not_begun_is_simply_not_reached() -> None:
    deals = dealer()
    first, *_ = (deals.take(5, TOTAL) for _ in range(3))
    assert first
    deals.note(first, 5)

    assert (deals.position.number, deals.position.missing) == (5, ())


def test_without_a_known_length_what_is_missing_is_read_again_with_what_follows_it() -> None:
    deals = dealer(batches=None)
    first, hung, third = (deals.take(5, TOTAL) for _ in range(3))
    assert first
    assert hung
    assert third
    deals.note(first, 5, (0, 4))
    deals.note(third, 5, (1, 2))

    position = deals.position
    assert (position.number, position.data_pass, position.index) == (5, 0, 5)
    assert position.missing == ()
