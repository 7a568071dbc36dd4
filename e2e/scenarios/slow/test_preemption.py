"""All pods of a job are taken away at once; it goes on when there is room again."""

import pytest

from e2e.preemption.measure import measured
from e2e.preemption.ways import WAYS, Way
from e2e.scenarios.drill import Drill


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_it_loses_at_most_the_steps_since_a_checkpoint(drill: Drill, way: Way) -> None:
    measured(drill, way)
