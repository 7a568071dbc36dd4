"""Jobs get the devices of a real device plugin by count; one that gets none waits and says so."""

from pathlib import Path
from typing import Any

import pytest

from e2e.devices import GPU, VARIABLE, gpus
from e2e.scenarios.broken_jobs.looking import row
from e2e.scenarios.conftest import program_or_skip
from e2e.scenarios.space import Space, job
from tools.cluster import Cluster
from tools.waiting import eventually

_Object = dict[str, Any]


@pytest.fixture(scope="session")
def device_plugin(cluster: Cluster) -> Path:
    return program_or_skip(cluster, "device-plugin")


def with_gpu(name: str, *arguments: str) -> _Object:
    """Return a job whose worker needs a GPU; its chief and its ps need none."""
    container = {"name": "tensorflow", "resources": {"limits": {GPU: 1}}}
    return job(name, *arguments, worker={"template": {"spec": {"containers": [container]}}})


def test_of_two_jobs_with_one_gpu_each_one_waits_and_says_so_until_it_is_free(
    space: Space, device_plugin: Path
) -> None:
    with gpus(space.cluster, device_plugin, 1):
        space.apply(with_gpu("first", "--epochs=1000"))
        space.wait_for("Running", name="first", seconds=120)
        devices = space.kubectl("exec", "first-worker-0", "--", "printenv", VARIABLE).split()
        assert devices == ["device-0"]

        space.apply(with_gpu("second", "--epochs=1"))
        state, message = eventually(lambda: told_of_a_gpu(space, "second"), "second waits", 60)
        created = space.read("pod/second-worker-0")["metadata"]["creationTimestamp"]
        assert state == "Unschedulable"
        assert message.startswith(f"waiting since {created} for a node: second-worker-0: ")

        space.kubectl("delete", "tftj/first", "--wait=false")
        space.wait_for("Succeeded", name="second", seconds=120)
        assert space.status("second")["restarts"] == 0


def told_of_a_gpu(space: Space, name: str) -> tuple[str, str] | None:
    """Return STATE and MESSAGE of `kubectl get tftj -o wide` once it names the GPU."""
    state, message = row(space.kubectl("get", "tftj", name, "-o", "wide"))
    return (state, message) if f"Insufficient {GPU}" in message else None
