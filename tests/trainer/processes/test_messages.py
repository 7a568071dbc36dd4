"""How many messages a step takes between a worker and its ps: that is what small steps cost."""

import re

import pytest
from harness import EXAMPLE, Computer, LoopbackCluster

# Variables, gradients with the changes of metrics, and whether the loop goes on.
_OF_A_STEP = 3
_TELLS_MESSAGES = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "base_rendezvous_mgr=1"}
_OF_A_LOOP = re.compile(r"RemoteRendezvous Recv .*;edge_\d+_.*while/")


@pytest.mark.parametrize("mode", ["asynchronous", "fit"])
def test_a_step_takes_few_messages(here: Computer, mode: str) -> None:
    cluster = LoopbackCluster.of(worker=1, ps=1)
    servers = [
        here.start(role, EXAMPLE, env=cluster.env(role, **_TELLS_MESSAGES), fresh=True)
        for role in ("worker", "ps")
    ]
    chief = here.start("chief", EXAMPLE, "--epochs=4", f"--mode={mode}", env=cluster.env("chief"))

    assert chief.ends() == 0, chief.log
    # TensorFlow warns of names that are ours, and of which a user can know nothing.
    assert "not a valid node name" not in chief.log
    (steps,) = {int(last) for last in re.findall(r"training from step 0 to step (\d+)", chief.log)}
    received = sum(len(_OF_A_LOOP.findall(server.log)) for server in servers)
    # At the end of a function the condition of its loop is sent once more.
    assert steps * _OF_A_STEP <= received <= steps * (_OF_A_STEP + 1)
