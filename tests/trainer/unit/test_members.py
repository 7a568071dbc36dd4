"""Members: what each has, written so that sums over all of them are enough."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from tftrainer.runtime.throughput import Work
from tftrainer.training.members import Members, decoded


class _Summed(Members):
    """A member that is told what the others add."""

    def __init__(self, *, count: int, number: int, others: Sequence[int] = ()) -> None:
        super().__init__(SimpleNamespace(num_replicas_in_sync=count), count=count, number=number)
        self._others = others

    def sum(self, values: Sequence[int]) -> list[int]:
        return [a + b for a, b in zip(values, self._others or [0] * len(values), strict=True)]


def test_the_work_of_all_is_read_from_its_sums() -> None:
    works = [Work(examples=64 * n, waiting=0.25 * n, busy=1.5 * n) for n in range(3)]
    encoded = [_Summed(count=3, number=n).encoded(work) for n, work in enumerate(works)]

    assert decoded([sum(values) for values in zip(*encoded, strict=True)]) == works


def test_numbers_of_the_chief_arrive_to_the_last_bit() -> None:
    values = [0.1, -1e-300, float("inf"), 3.0]
    sent: list[int] = []

    class Sending(_Summed):
        def sum(self, values: Sequence[int]) -> list[int]:
            sent.extend(values)
            return list(values)

    assert Sending(count=2, number=0).floats_of_chief(values) == values
    worker = _Summed(count=2, number=1, others=sent)
    assert worker.floats_of_chief([0.2, 5.0, float("nan"), 4.0]) == values


@pytest.mark.parametrize("own", ["", "a longer text than the chief's: größer als dieser"])
def test_the_text_of_the_chief_arrives_whatever_others_have(own: str) -> None:
    sent: list[list[int]] = []

    class Sending(_Summed):
        def sum(self, values: Sequence[int]) -> list[int]:
            sent.append(list(values))
            return list(values)

    class Receiving(_Summed):
        def sum(self, values: Sequence[int]) -> list[int]:
            return [a + b for a, b in zip(values, sent.pop(0), strict=True)]

    assert Sending(count=2, number=0).text_of_chief('{"größe": 1}') == '{"größe": 1}'
    assert Receiving(count=2, number=1).text_of_chief(own) == '{"größe": 1}'


def test_what_each_member_has_is_known_to_all() -> None:
    of_first = _Summed(count=3, number=0).of_each(7)
    assert _Summed(count=3, number=2, others=of_first).of_each(9) == [7, 0, 9]
