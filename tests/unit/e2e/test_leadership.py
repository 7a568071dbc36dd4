"""Changes of leader and how long nobody led, by the writes of a Lease."""

import pytest

from e2e.leadership import Handover, Held, handovers


def held(*writes: tuple[float, str]) -> list[Held]:
    return [Held(at, holder) for at, holder in writes]


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        pytest.param(held((1, "a"), (3, "a")), [], id="renewed"),
        pytest.param(held((1, "a"), (3, ""), (3.5, "b")), [Handover(3.5, 0.5)], id="released"),
        pytest.param(held((1, "a"), (3, "a"), (18, "b")), [Handover(18, 15)], id="expired"),
        pytest.param(
            held((1, "a"), (3, ""), (4, ""), (5, "b")),
            [Handover(5, 2)],
            id="from when it was released, whatever is written then",
        ),
        pytest.param(held((1, "a"), (3, ""), (4, "a")), [], id="taken by the same again"),
        pytest.param(held((1, ""), (3, "a")), [], id="the first leader"),
        pytest.param(
            held((1, "a"), (3, ""), (4, "b"), (6, "b"), (8, ""), (8.25, "c")),
            [Handover(4, 1), Handover(8.25, 0.25)],
            id="two in a row, as an upgrade of two replicas makes",
        ),
    ],
)
def test_changes_of_leader(writes: list[Held], expected: list[Handover]) -> None:
    assert handovers(writes) == expected
