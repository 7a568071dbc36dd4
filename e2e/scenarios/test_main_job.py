"""The main job: what `make demo` shows, asserted, and followed by tftj as its user does."""

from pathlib import Path

from e2e.scenarios.followed import followed_columns, followed_logs
from e2e.scenarios.space import Space, example
from tools.waiting import eventually


def test_the_example_trains_evaluates_and_succeeds(space: Space, tmp_path: Path) -> None:
    space.apply(*example("mnist.yaml"))
    with followed_columns(space, tmp_path / "columns"), followed_logs(space, tmp_path / "log"):
        space.kubectl("wait", "--for=condition=Finished", "tftj/mnist", "--timeout=420s")

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
    shown = [line.split()[:4] for line in (tmp_path / "columns").read_text().splitlines()]
    assert ["mnist", "Running", "2/2", "1/1"] in shown
    _followed_whole(space, (tmp_path / "log").read_text())
    eventually(
        lambda: set(space.pods()) == {"mnist-chief-0", "mnist-evaluator-0"}, "servers go", 60
    )
    events = space.events()
    reasons = {event["reason"] for event in events}
    assert reasons >= {"Created", "Running", "Succeeded"}
    # Pods of the scenario beside this one may leave no room for a while.
    warnings = [event["message"] for event in events if event["type"] == "Warning"]
    assert [each for each in warnings if "Insufficient cpu" not in each] == []


def _followed_whole(space: Space, log: str) -> None:
    """See lines of each pod, and of those that are kept all that their logs have."""
    lines = [line.partition(" ") for line in log.splitlines()]
    sources = {source for source, _, _ in lines}
    assert sources == {"chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0"}
    for kept in ("chief-0", "evaluator-0"):
        shown = [text.strip() for source, _, text in lines if source == kept]
        assert shown == [line.strip() for line in space.logs(f"mnist-{kept}").splitlines()]
