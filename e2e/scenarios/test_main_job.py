"""The main job: what `make demo` shows, asserted, and followed by tftj as its user does."""

from pathlib import Path

import pytest

from e2e.scenarios.followed_logs import followed
from e2e.scenarios.space import Space, example
from tools.cluster import ClusterError
from tools.waiting import eventually


def test_the_example_trains_evaluates_and_succeeds(space: Space, tmp_path: Path) -> None:
    space.apply(*example("mnist.yaml"))
    with followed(space, tmp_path / "log"):
        _pods_may_do_little(space)
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
    _followed_whole(space, (tmp_path / "log").read_text())
    eventually(
        lambda: set(space.pods()) == {"mnist-chief-0", "mnist-evaluator-0"}, "servers go", 60
    )
    events = space.events()
    reasons = {event["reason"] for event in events}
    assert reasons >= {"Created", "Running", "Succeeded"}
    assert {event["type"] for event in events} == {"Normal"}


def _pods_may_do_little(space: Space) -> None:
    """A training gets by with a read-only root, as a user without rights."""
    # Servers are ready some seconds before the chief trains, and go when it is done.
    for condition in ("create", "condition=Ready"):
        space.kubectl("wait", f"--for={condition}", "pod/mnist-worker-0", "--timeout=120s")
    for role in ("chief", "worker", "ps"):
        pod = space.read(f"pod/mnist-{role}-0")
        [container] = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    with pytest.raises(ClusterError, match="Read-only file system") as refused:
        space.kubectl("exec", "mnist-worker-0", "--", "sh", "-ec", "id -u; touch /opt/venv/mine")
    assert "65532" in str(refused.value).splitlines()


def _followed_whole(space: Space, log: str) -> None:
    """See lines of each pod, and of those that are kept all that their logs have."""
    lines = [line.partition(" ") for line in log.splitlines()]
    sources = {source for source, _, _ in lines}
    assert sources == {"chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0"}
    for kept in ("chief-0", "evaluator-0"):
        shown = [text.strip() for source, _, text in lines if source == kept]
        assert shown == [line.strip() for line in space.logs(f"mnist-{kept}").splitlines()]
