"""Workers and the evaluator come and go; the training goes on with the others."""

import pytest

from e2e.jobs import paced
from e2e.scenarios.drill import Drill, now
from tools.cluster import ClusterError
from tools.waiting import eventually

_HUNG_SECONDS = 150
"""A hung peer is noticed within 30 s, its pod replaced, and TensorFlow imported again."""


@pytest.mark.long
def test_the_job_runs_throughout_and_loses_nothing(drill: Drill) -> None:
    protected = {"budget": "Essential"}
    drill.start(paced(worker={"replicas": 3}, evaluator={}, disruption=protected))
    drill.space.wait_for("Running")
    began = now()
    _pods_may_do_little(drill)
    chief = drill.incarnation(drill.pod("chief"))

    healthy = ("get", "pdb", "mnist-budget", "-o", "jsonpath={.status.currentHealthy}")
    eventually(lambda: drill.space.kubectl(*healthy) == "2", "chief and ps are counted", 30)
    with pytest.raises(ClusterError, match="violate the pod's disruption budget"):
        drill.pod("chief").evict()

    drill.inject(drill.pod("worker", 0), drill.pod("worker", 0).kill)
    drill.inject(drill.pod("worker", 1), drill.pod("worker", 1).exhaust_memory)
    drill.inject(drill.pod("worker", 2), drill.pod("worker", 2).delete)
    drill.inject(drill.pod("worker", 0), drill.pod("worker", 0).evict)
    drill.inject(drill.pod("evaluator"), drill.pod("evaluator").kill)

    frozen, cut_off = drill.pod("worker", 0), drill.pod("worker", 1)
    before = drill.incarnation(frozen), drill.incarnation(cut_off)
    frozen.freeze()
    cut_off.cut_off()
    drill.wait_for_steps(seconds=60)
    drill.wait_until_back(frozen, before[0], _HUNG_SECONDS)
    drill.wait_until_back(cut_off, before[1], _HUNG_SECONDS)

    drill.expect_always_running(began)
    assert drill.incarnation(drill.pod("chief")) == chief
    drill.expect_success(restarts=0)
    budgets = ("get", "pdb", "-o", "name")
    eventually(lambda: "mnist-budget" not in drill.space.kubectl(*budgets), "no budget is left", 30)


def _pods_may_do_little(drill: Drill) -> None:
    """A training gets by with a read-only root, as a user without rights."""
    for role in ("chief", "worker", "ps"):
        pod = drill.space.read(f"pod/mnist-{role}-0")
        [container] = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    # In one stream: two come in any order, and in one line.
    program = ("sh", "-ec", "id -u >&2; touch /opt/venv/mine")
    with pytest.raises(ClusterError, match="Read-only file system") as refused:
        drill.space.kubectl("exec", "mnist-worker-0", "--", *program)
    assert "65532" in str(refused.value).splitlines()
