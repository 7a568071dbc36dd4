"""A TFJob as people have it, converted, trains with the script that it had before.

`make tfjobs` runs all shapes; this one has all roles of TensorFlow's tutorial and an evaluator.
"""

from e2e.scenarios.space import Space
from e2e.scenarios.tfjobs.running import run, wrong
from e2e.scenarios.tfjobs.shapes import BY_NAME


def test_the_tutorials_script_trains_and_is_evaluated(space: Space) -> None:
    shape = BY_NAME["evaluator"]
    outcome = run(space, shape)

    assert wrong(shape, outcome) == [], space.describe(shape.name)
    assert "step 200: the weights differ" in space.logs("evaluator-evaluator-0")
