"""The classics that train several times, to compare what is learned."""

from e2e.scenarios.classics import classic, found, logs_of_chiefs, metrics
from e2e.scenarios.space import Space


def test_two_workers_give_the_curve_of_one_process(space: Space) -> None:
    (log,) = logs_of_chiefs(space, classic("exponential"))

    loss, apart = found(r"300 losses down to (\S+): those of one process differ by (\S+) of", log)
    assert float(loss) < 0.02
    assert 0 < float(apart) <= 1e-5
    assert space.status("exponential")["progress"]["step"] == 300


def test_two_replicas_learn_what_one_learns(space: Space) -> None:
    one = {"--batch-size=50": "--batch-size=100", "--logical-cpus=2": "--logical-cpus=1"}
    logs = logs_of_chiefs(
        space, classic("mirrored-mnist"), classic("mirrored-mnist", one, called="one-replica")
    )

    accuracies = [float(found(r"held-out accuracy (\S+),", log)[0]) for log in logs]
    assert min(accuracies) >= 0.951
    assert abs(accuracies[0] - accuracies[1]) <= 0.005


def test_keras_fit_and_the_custom_loop_learn_the_same(space: Space) -> None:
    loop = {"--mode=fit": "--mode=asynchronous"}
    logs_of_chiefs(space, classic("both-ways"), classic("both-ways", loop, called="custom-loop"))

    for name in ("both-ways", "custom-loop"):
        progress = space.status(name)["progress"]
        assert progress["step"] == progress["totalSteps"] > 0
        assert metrics(space, name)["accuracy"] >= 0.9, space.describe(name)
