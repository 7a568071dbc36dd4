"""The main job: what `make demo` shows, asserted."""

from e2e.scenarios.space import Space, example
from tools.waiting import eventually


def test_the_example_trains_evaluates_and_succeeds(space: Space) -> None:
    space.apply(*example("mnist.yaml"))
    space.wait_for("Running", seconds=120)
    columns = eventually(
        lambda: (
            c
            if (c := space.kubectl("get", "tftj", "mnist").splitlines()[1].split())[1:4]
            == ["Running", "2/2", "1/1"]
            else None
        ),
        "the line of a running job",
        60,
    )
    assert columns[0] == "mnist"

    space.kubectl("wait", "--for=condition=Finished", "tftj/mnist", "--timeout=300s")

    status = space.status()
    assert status["state"] == "Succeeded", space.describe()
    assert status["restarts"] == 0
    assert status["progress"]["step"] == status["progress"]["totalSteps"]
    accuracy = next(
        float(m["value"]) for m in status["evaluation"]["metrics"] if m["name"] == "accuracy"
    )
    assert status["evaluation"]["final"] is True
    assert status["evaluation"]["step"] == status["progress"]["step"]
    assert accuracy >= 0.95
    columns = space.kubectl("get", "tftj", "mnist").splitlines()[1].split()
    assert columns[:6] == ["mnist", "Succeeded", "2/2", "1/1", "100%", "0"]
    eventually(
        lambda: set(space.pods()) == {"mnist-chief-0", "mnist-evaluator-0"}, "servers go", 60
    )
    events = space.events()
    reasons = {event["reason"] for event in events}
    assert reasons >= {"Created", "PodsReady", "Running", "ChiefSucceeded", "Succeeded"}
    assert {event["type"] for event in events} == {"Normal"}
