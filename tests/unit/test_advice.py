"""What the cluster says is followed by what to do about it."""

from __future__ import annotations

import pytest
from tftraining_operator.core.advice import with_advice

FULL = "request less (resources of the template), or add nodes"


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        pytest.param("0/3 nodes are available: 3 Insufficient cpu.", FULL, id="CPU"),
        pytest.param(
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are"
            " available: 2 Preemption is not helpful for scheduling.",
            FULL,
            id="GPUs",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            "correct nodeSelector or affinity",
            id="no node is selected",
        ),
        pytest.param(
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: true}.",
            "add a toleration for the taint, or wait for other nodes",
            id="a taint",
        ),
        pytest.param(
            '0/1 nodes are available: persistentvolumeclaim "data" not found',
            "create PersistentVolumeClaim data, or correct its name",
            id="a claim",
        ),
        pytest.param(
            'MountVolume.SetUp failed for volume "code" : configmap "task" not found',
            "create ConfigMap task, or correct its name",
            id="a ConfigMap, in the kubelet's words",
        ),
        pytest.param(
            'secret "s3" not found', "create Secret s3, or correct its name", id="a Secret"
        ),
        pytest.param(
            'pods "mnist-chief-0" is forbidden: exceeded quota: few, requested: pods=1',
            "raise the quota, or wait for room in it: creation is retried",
            id="a quota",
        ),
        pytest.param(
            'pods "a" is forbidden: failed quota: few: must specify limits.memory for: tensorflow',
            "set these in resources of the template",
            id="a quota for limits, and no limit",
        ),
    ],
)
def test_advice_follows(said: str, advice: str) -> None:
    assert with_advice(said) == f"{said.rstrip('.')}; {advice}"


def test_what_is_not_known_is_left_as_it_is() -> None:
    said = "0/1 nodes are available: 1 node(s) were unschedulable."
    assert with_advice(said) == said
