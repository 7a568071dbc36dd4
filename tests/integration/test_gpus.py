"""GPUs on a real API server, with Kubernetes' own scheduler and its controller of ResourceClaims.

Nodes are played. Whether a kubelet gives devices to containers, e2e/scenarios/test_gpus.py shows.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.apiserver import PROGRAMS, ApiServer, running, working
from tests.conftest import ROOT, program_or_skip
from tests.integration.gangs import add_node, message
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_Object = dict[str, Any]

pytestmark = pytest.mark.timeout(120)

PLAIN, WITH_GPUS = "cpu-1", "gpu-1"
GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
DRIVER = "gpu.example.com"


@pytest.fixture(scope="module")
def gpu_server() -> Iterator[ApiServer]:
    """An API server with our CRD, a node with two GPUs, one without, scheduler and controllers."""
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    manager, scheduler = (program_or_skip(f"kube-{n}") for n in ("controller-manager", "scheduler"))
    with running(programs) as server:
        server.serve_crd(ROOT / "crds")
        add_node(server, PLAIN)
        add_node(server, WITH_GPUS, taints=[TAINT], **{GPU: "2"})
        server.apply(*_devices())
        claims = "--controllers=resourceclaim-controller"
        with working(manager, server, claims), working(scheduler, server):
            yield server


@pytest.fixture(scope="module")
def operator(gpu_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    found = Operator(gpu_server.kubeconfig, tmp_path_factory.mktemp("operator") / "log")
    found.start()
    yield found
    found.stop()


@pytest.fixture
def space(gpu_server: ApiServer, operator: Operator) -> Iterator[Namespace]:
    """A namespace of the operator; what it holds of the nodes is free afterwards."""
    assert operator
    found = Namespace(gpu_server, f"test-{secrets.token_hex(4)}")
    gpu_server.kubectl("create", "namespace", found.name)
    yield found
    found.kubectl("delete", "tftj", "--all")
    for pod in found.pods():
        found.delete_pod(pod)


def nodes(space: Namespace) -> dict[str, str]:
    """The nodes of the pods that have one."""
    pods = space.pods().items()
    return {name: node for name, pod in pods if (node := pod["spec"].get("nodeName"))}


def delete(space: Namespace, job: str) -> None:
    """Delete a job, and then its pods, as garbage collector and kubelets would."""
    space.kubectl("delete", "tftj", job)
    for pod in [name for name in space.pods() if name.startswith(f"{job}-")]:
        space.delete_pod(pod)


def test_only_the_workers_of_the_example_are_on_the_node_with_gpus(space: Namespace) -> None:
    example = yaml.safe_load((ROOT / "examples/gpus.yaml").read_text())
    space.apply(example)
    expected = {f"gpus-{name}": WITH_GPUS for name in ("worker-0", "worker-1")}
    expected |= {f"gpus-{name}": PLAIN for name in ("chief-0", "ps-0")}
    eventually(lambda: nodes(space) == expected, "each pod has the node of its role")

    space.apply(example | {"metadata": {"name": "later"}})
    lacking = f"Insufficient {GPU}"
    eventually(lambda: lacking in message(space, "later"), "it says what it waits for")
    since = space.pods()["later-worker-0"]["metadata"]["creationTimestamp"]
    # The scheduler may look at another worker first.
    waiting = f"waiting since {since} for a node: later-worker-0: "
    eventually(lambda: message(space, "later").startswith(waiting), "it names the first of them")
    delete(space, "gpus")
    eventually(lambda: nodes(space).get("later-worker-1") == WITH_GPUS, "the GPUs are its own")


def test_a_claim_template_gives_each_worker_a_device_of_its_own(space: Namespace) -> None:
    space.server.kubectl("-n", space.name, "apply", "-f", "-", stdin=yaml.safe_dump(_template()))
    container = {"name": "tensorflow", "resources": {"claims": [{"name": "gpu"}]}}
    claim = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    pod = {"resourceClaims": [claim], "containers": [container]}
    worker = {"replicas": 3, "template": {"spec": pod}}
    space.apply(manifest("mnist", worker=worker))

    eventually(lambda: len(nodes(space)) == 4, "all but one worker have nodes")
    path = f"/apis/resource.k8s.io/v1/namespaces/{space.name}/resourceclaims"
    claims = space.server.request("GET", path).body["items"]
    given = [
        result["device"]
        for each in claims
        if (allocation := (each.get("status") or {}).get("allocation"))
        for result in allocation["devices"]["results"]
    ]
    assert sorted(given) == ["gpu-0", "gpu-1"]
    asks = [name for name, pod in space.pods().items() if pod["spec"].get("resourceClaims")]
    assert asks == [f"mnist-worker-{index}" for index in range(3)]
    eventually(
        lambda: "cannot allocate all claims" in message(space, "mnist"), "it says what it waits for"
    )


def _devices() -> list[_Object]:
    """A class of devices, and two of them on a node without taints, as their driver publishes."""
    api = "resource.k8s.io/v1"
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    kind: _Object = {"selectors": [selector]}
    published: _Object = {
        "driver": DRIVER,
        "nodeName": PLAIN,
        "pool": {"name": PLAIN, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{index}"} for index in range(2)],
    }
    return [
        {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": kind},
        {
            "apiVersion": api,
            "kind": "ResourceSlice",
            "metadata": {"name": "two"},
            "spec": published,
        },
    ]


def _template() -> _Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
