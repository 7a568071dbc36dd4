"""A TFJob as people have it, converted, trains with the script that it had before.

`make tfjobs` runs all shapes; this one has all roles of TensorFlow's tutorial and an evaluator.
"""

from e2e.scenarios.tfjobs.running import run, space_of, wrong
from e2e.scenarios.tfjobs.shapes import BY_NAME
from tools.cluster import Cluster


def test_the_tutorials_script_trains_and_is_evaluated(cluster: Cluster) -> None:
    shape = BY_NAME["evaluator"]
    with space_of(cluster, shape) as space:
        outcome = run(space, shape)

        assert wrong(shape, outcome) == [], space.describe(shape.name)
        assert "step 200: the weights differ" in space.logs("evaluator-evaluator-0")
