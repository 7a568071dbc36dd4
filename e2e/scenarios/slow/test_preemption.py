"""All pods of a job are taken away at once; it goes on when there is room again."""

import pytest

from e2e.scenarios.drill import Drill
from e2e.scenarios.preemption.measure import measured
from e2e.scenarios.preemption.ways import WAYS, Way


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_it_loses_at_most_the_steps_since_a_checkpoint(drill: Drill, way: Way) -> None:
    measured(drill, way)
