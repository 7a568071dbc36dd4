"""Every batch is given to somebody, whatever the workers do, and to nobody twice for nothing."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tftrainer.data.position import Passes, Position
from tftrainer.parameter_server.dealer import Dealer

START = Position(seed=1, batch_size=8, epoch_batches=20)
TOTAL = 60
LANES = st.sampled_from([1, 2, 3])


def dealer(
    start: Position = START, batches: int | None = 20, total: int = TOTAL, lanes: int = 1
) -> Dealer:
    return Dealer(Passes(start, batches), total=total, lanes=lanes)


def given_to_any(deals: Dealer, most: int, lanes: int) -> range | None:
    """What is given to the first of all workers that gets anything; asked patiently."""
    for _ in range(50):
        for worker in range(lanes):
            if (found := deals.take(most, TOTAL, worker)) is not None:
                return found
    return None


@given(
    LANES,
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 9), st.floats(0, 1), st.sampled_from("dkl")),
        max_size=80,
    ),
)
def test_all_is_trained_on_once_by_workers_that_stop_early_keep_it_or_are_lost(
    lanes: int, turns: list[tuple[int, int, float, str]]
) -> None:
    deals, seen, held = dealer(lanes=lanes), Counter[int](), []
    plan = iter(turns)
    while not deals.is_complete:
        worker, most, share, does = next(plan, (0, 5, 1.0, "d"))
        got = deals.take(most, TOTAL, worker % lanes) or given_to_any(deals, most, lanes)
        if got is None:
            # Those that held something back come back with all of it.
            got, share, does = held.pop(0), 1.0, "d"
        if does == "k":
            held.append(got)
        elif does == "l":
            deals.lose(got)
        else:
            made = round(share * len(got))
            seen.update(got[:made])
            deals.note(got, made)

    assert seen == Counter(range(TOTAL))
    assert deals.position.number == TOTAL
    assert deals.position.missing == ()


@given(
    LANES,
    LANES,
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.booleans()), max_size=30),
)
def test_a_training_that_goes_on_from_any_position_leaves_nothing_out(
    lanes: int, lanes_then: int, turns: list[tuple[int, int, bool]]
) -> None:
    deals, seen = dealer(lanes=lanes), Counter[int]()
    for worker, most, is_done in turns:
        got = deals.take(most, TOTAL, worker % lanes)
        if got and is_done:
            deals.note(got, len(got))
            seen.update(got)
    position = deals.position
    missing = {number for each in position.missing for number in range(*each)}
    assert seen == Counter(set(range(position.number)) - missing)
    assert deals.left == TOTAL - len(seen)

    again = dealer(position, lanes=lanes_then)
    while (got := given_to_any(again, 7, lanes_then)) is not None:
        again.note(got, len(got))
        seen.update(got)

    assert again.is_complete
    assert seen == Counter(range(TOTAL))


def test_each_worker_gets_its_own_lane() -> None:
    deals = dealer(replace(START, number=10), lanes=3)

    assert [deals.take(2, 40, worker) for worker in (0, 1, 2)] == [
        range(10, 16, 3),
        range(11, 17, 3),
        range(12, 18, 3),
    ]
    deals.note(range(11, 17, 3), 1)
    assert deals.take(2, 40, 1) == range(14, 20, 3)


def test_who_has_finished_its_lane_gets_half_of_what_another_has_left() -> None:
    deals = dealer(lanes=2)
    fast, slow = deals.take(10, 20, 0), deals.take(2, 20, 1)
    assert (fast, slow) == (range(0, 20, 2), range(1, 5, 2))
    assert fast
    deals.note(fast, 10)

    # Of 5, 7, …, 19.
    assert deals.take(2, 20, 0) == range(13, 17, 2)
    assert deals.take(2, 20, 0) == range(17, 21, 2)
    assert not deals.has_any(4, 20), "the last four are left to their worker, which is busy"
    assert deals.take(4, 20, 0) is None
    assert deals.take(4, 20, 1) == range(5, 13, 2)


def test_whose_lane_another_goes_on_with_has_the_lane_of_that_one() -> None:
    deals = dealer(lanes=2)
    for worker, most in ((0, 10), (1, 2), (0, 4), (1, 4)):
        got = deals.take(most, 20, worker)
        assert got
        deals.note(got, len(got))
    assert deals.reached == 20

    assert deals.take(3, 40, 0) == range(21, 27, 2), "behind what it was given of the other's"
    assert deals.take(3, 40, 1) == range(20, 26, 2)


@pytest.mark.parametrize("fate", ["lost", "hangs"])
def test_what_a_worker_has_left_that_is_not_there_goes_to_another(fate: str) -> None:
    deals = dealer(lanes=2)
    fast, lost = deals.take(10, 20, 0), deals.take(6, 20, 1)
    assert fast
    assert lost
    deals.note(fast, 10)
    assert not deals.has_any(4, 20)

    if fate == "lost":
        deals.lose(lost)
        assert deals.take(4, 20, 0) == range(1, 9, 2)
    else:
        deals.give_up_waiting()
        assert deals.take(4, 20, 0) == range(13, 21, 2)


def test_a_worker_hangs_until_it_ends_what_it_had_when_it_was_given_up() -> None:
    deals = dealer(lanes=2)
    hung = deals.take(6, 20, 1)
    assert hung
    assert deals.hanging == 0
    deals.give_up_waiting()
    assert deals.hanging == 1
    assert deals.take(6, 20, 0)
    assert deals.hanging == 1, "the other was given something since, and is waited for"

    deals.note(hung, 6)
    assert deals.hanging == 0
    assert deals.take(6, 20, 1)
    assert deals.hanging == 0


def test_a_worker_that_does_not_come_for_the_little_it_has_left_is_not_waited_for() -> None:
    deals = dealer(lanes=2)
    for worker, most in ((0, 10), (1, 8)):
        got = deals.take(most, 20, worker)
        assert got
        deals.note(got, len(got))

    asked = [deals.take(4, 20, 0) for _ in range(60)]
    assert asked[0] is None
    assert asked.count(range(17, 21, 2)) == 1


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("most", [1, 4])
def test_nobody_is_further_than_in_the_epoch_after_that_of_the_slowest(
    lanes: int, most: int
) -> None:
    deals, end = dealer(lanes=lanes, total=400), 400
    undone, busy = set(range(end)), dict[int, tuple[int, range]]()
    for now in range(4000):
        for worker, seconds in ((0, 1), (1, 4)):
            due, given = busy.get(worker, (now, range(0)))
            if due > now:
                continue
            if given:
                deals.note(given, len(given))
                undone.difference_update(given)
                del busy[worker]
            got = deals.take(most, end, worker % lanes)
            if got:
                assert got[-1] // 20 <= min(undone) // 20 + 1
                busy[worker] = now + seconds * len(got), got
    assert deals.is_complete


def test_a_worker_that_hangs_keeps_nobody_in_its_epoch() -> None:
    deals = dealer(lanes=2, total=200)
    assert deals.take(4, 200, 1)
    deals.give_up_waiting()

    seen = Counter[int]()
    while (got := deals.take(4, 200, 0)) is not None:
        deals.note(got, len(got))
        seen.update(got)
    assert seen == Counter(set(range(200)) - {1, 3, 5, 7})


def test_where_functions_are_longer_than_epochs_they_are_not_cut_by_them() -> None:
    deals = dealer(lanes=2, total=2000)

    assert deals.take(100, 2000, 0) == range(0, 200, 2)
    assert deals.take(100, 2000, 1) == range(1, 201, 2)


def test_what_lies_behind_the_end_of_a_shorter_training_stays_missing() -> None:
    start = replace(START, number=80, missing=((50, 80, 2), (71, 73, 1)))
    deals = dealer(start, lanes=2)
    assert deals.left == 5

    got = given_to_any(deals, 9, 2)
    assert got == range(50, 60, 2)
    deals.note(got, 5)
    assert deals.is_complete
    assert deals.reached == 80
    assert deals.position == replace(start, missing=((60, 80, 2), (71, 73, 1)))


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


@pytest.mark.parametrize("end", ["done", "lost"])
def test_it_hangs_also_when_what_it_had_was_given_to_another(end: str) -> None:
    deals = dealer(lanes=2)
    hung = deals.take(6, 20, 1)
    assert hung
    deals.give_up_waiting()
    deals.take_back()
    assert deals.take(6, 20, 0)
    assert deals.hanging == 1

    deals.note(hung, 6) if end == "done" else deals.lose(hung)
    assert deals.hanging == 0


def test_what_was_taken_back_counts_for_its_new_worker_alone() -> None:
    deals = dealer()
    hung = deals.take(10, TOTAL)
    deals.take_back()
    again = deals.take(4, TOTAL)
    assert hung
    assert again == range(4)
    deals.note(hung, 10)
    deals.lose(hung)

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
    assert position.missing == ((30, 35, 1),)


def test_the_position_names_what_one_worker_is_behind_another() -> None:
    deals = dealer(lanes=2)
    for most, worker in ((5, 0), (2, 1)):
        got = deals.take(most, TOTAL, worker)
        assert got
        deals.note(got, most)

    assert (deals.position.number, deals.position.missing) == (9, ((5, 9, 2),))


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


def test_who_is_given_what_does_not_follow_has_to_read_up_to_there() -> None:
    deals = dealer(total=20, lanes=2)
    fast, slow = deals.take(10, 20, 0), deals.take(2, 20, 1)
    assert fast
    assert slow
    deals.note(fast, 10)
    assert not deals.is_reading
    taken = deals.take(2, 20, 0)
    assert taken == range(13, 17, 2)
    assert deals.is_reading
    assert deals.reached == 5, "the epoch does not end without it"

    deals.note(slow, 2)
    rest = deals.take(4, 20, 1)
    assert rest == range(5, 13, 2)
    deals.note(rest, 4)
    assert deals.reached == 13
    # It is given up: what it has counts as reached.
    deals.give_up_waiting(also_readers=False)
    assert deals.is_reading
    deals.give_up_waiting()
    assert not deals.is_reading
    assert deals.reached == 17


def test_who_was_lost_reads_from_the_beginning_when_it_is_back() -> None:
    deals = dealer()
    first = deals.take(3, 20)
    assert first
    deals.lose(first)
    again = deals.take(3, 20)
    assert again == first
    assert deals.is_reading
    deals.note(again, 3)
    assert not deals.is_reading
    assert deals.take(3, 20) == range(3, 6)
    assert not deals.is_reading
