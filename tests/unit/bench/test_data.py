from collections import Counter

import pytest

from bench.data.runs import Run


@pytest.mark.parametrize(
    ("epochs", "seen", "repeated"),
    [
        pytest.param(({1: 4}, {1: 4}), 1.0, 0, id="each once in each epoch"),
        pytest.param(
            ({2: 1, 1: 3}, {0: 1, 1: 3}), 0.75, 1, id="twice in one and never in the next"
        ),
        pytest.param(({1: 4}, {3: 1, 1: 3}), 1.0, 2, id="three times"),
    ],
)
def test_an_example_has_to_be_seen_in_every_epoch(
    epochs: tuple[dict[int, int], ...], seen: float, repeated: int
) -> None:
    found = Run("local", "2", "unshuffled", "none", tuple(map(Counter, epochs)))

    assert (found.seen, found.repeated) == (seen, repeated)
