"""What tests of gangs share: nodes without machines, jobs that fill them, schedulers' groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.apiserver import working
from tests.conftest import KUBERNETES
from tests.integration.jobs import manifest
from tools.cluster.binaries import SOURCES, module_dir
from tools.cluster.shell import ClusterError
from tools.waiting import eventually

if TYPE_CHECKING:
    import threading
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.apiserver import ApiServer
    from tests.integration.jobs import Namespace

_Object = dict[str, Any]

NODES = ("node-1", "node-2")
CPUS = 5
"""Of each node. A job has three pods of 2 CPUs: 60 % of the cluster, which has room for four."""

IN_TREE_VERSION = {"1.35": "", "1.37": "v1beta1"}.get(KUBERNETES, "v1alpha2")
"""What the operator uses of Kubernetes' own gangs, "" where there is nothing that it knows."""
needs_in_tree = pytest.mark.skipif(
    not IN_TREE_VERSION, reason=f"Kubernetes {KUBERNETES} has no PodGroups that the operator uses"
)
IN_TREE = f"podgroups.{IN_TREE_VERSION}.scheduling.k8s.io"
GATE = "--feature-gates=GenericWorkload=true"
IN_TREE_FLAGS = (
    (GATE, f"--runtime-config=scheduling.k8s.io/{IN_TREE_VERSION}=true") if IN_TREE_VERSION else ()
)
"""Of the API server."""
SCHEDULER_GATES = GATE if KUBERNETES == "1.37" else f"{GATE},GangScheduling=true"
COSCHEDULING = "podgroups.v1alpha1.scheduling.x-k8s.io"
VOLCANO = "podgroups.v1beta1.scheduling.volcano.sh"
CRDS = {
    COSCHEDULING: (
        *("coscheduling", "sigs.k8s.io/scheduler-plugins"),
        "manifests/coscheduling/crd.yaml",
    ),
    VOLCANO: (
        *("volcano-scheduler", "volcano.sh/volcano"),
        "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    ),
}
"""A program, its module and the CRD in that, by resource."""


def a_job(name: str, gang: str, **scheduling: Any) -> _Object:
    """A job of three pods of one priority.

    Without a gang, all ps are tried before the chiefs, and these before the workers.
    """
    container = {"name": "tensorflow", "image": "any", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"containers": [container]}}
    scheduling = {"gang": gang, **scheduling}
    roles: _Object = {"worker": {"replicas": 1}}
    if gang == "None":
        for role in ("chief", "ps", "worker"):
            spec = {"priorityClassName": f"test-{role}"}
            roles.setdefault(role, {})["template"] = {"spec": spec}
    else:
        scheduling["priorityClassName"] = "test-chief"
    return manifest(name, template=template, scheduling=scheduling, **roles)


def bound(space: Namespace, job: str) -> int:
    """How many pods of a job have a node."""
    pods = [pod for name, pod in space.pods().items() if name.startswith(f"{job}-")]
    return sum("nodeName" in pod["spec"] for pod in pods)


def groups(space: Namespace, resource: str) -> dict[str, _Object]:
    """Read the operator's groups for a scheduler, by name."""
    plural, version, group = resource.split(".", 2)
    path = f"/apis/{group}/{version}/namespaces/{space.name}/{plural}"
    ours = {"labelSelector": "tftraining.dev/job"}
    found = space.server.request("GET", path, query=ours).body["items"]
    return {each["metadata"]["name"]: each for each in found}


def gangs(space: Namespace, resource: str) -> dict[str, _Object]:
    """Read the groups of gangs, without those of pods that come later."""
    found = groups(space, resource)
    return {name: each for name, each in found.items() if not name.endswith("-later")}


def message(space: Namespace, job: str) -> str:
    """Read what a job says of itself."""
    return str(space.status(job).get("message") or "")


def first_and_second(space: Namespace) -> tuple[str, str]:
    """Wait until red or blue has all of its nodes; return it, then the other."""
    counts = eventually(
        lambda: found if max(found := (bound(space, "red"), bound(space, "blue"))) else None,
        "a job has nodes",
    )
    first, second = ("red", "blue") if counts[0] else ("blue", "red")
    eventually(lambda: bound(space, first) == 3, f"{first} has all of its nodes")
    return first, second


def train(space: Namespace, job: str) -> None:
    """Let a job's pods run, the chief last, as it is ready when it has reached every server."""
    names = [name for name in space.pods() if name.startswith(f"{job}-")]
    space.run(*sorted(names, key=lambda name: "-chief-" in name))
    space.wait_for("Running", name=job)


def suspend(space: Namespace, job: str) -> None:
    """Suspend a job as a user does."""
    patch = {"spec": {"runPolicy": {"suspend": True}}}
    space.kubectl("patch", "tftj", job, "--type=merge", "-p", json.dumps(patch))


def remade(space: Namespace, resource: str, name: str) -> None:
    """Delete a group as somebody may, and wait until there is another in its place."""
    before = groups(space, resource)[name]["metadata"]["uid"]
    space.kubectl("delete", resource, name, "--wait=false")

    def is_new() -> bool:
        found = groups(space, resource).get(name)
        return found is not None and found["metadata"]["uid"] != before

    eventually(is_new, "the group is made again")


def serve_groups(server: ApiServer, resource: str) -> str:
    """Apply a scheduler's own CRD of its groups; return its name."""
    program, module, path = CRDS[resource]
    try:
        folder = module_dir(SOURCES[program].family, module)
    except ClusterError as error:
        pytest.skip(f"{module} is not available: {error}")
    return server.serve_crd(folder / path)


def coscheduling(program: Path, server: ApiServer) -> AbstractContextManager[object]:
    """Run the scheduler of scheduler-plugins, with the plugin Coscheduling alone."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(server.kubeconfig)},
        "profiles": [
            {
                "schedulerName": "scheduler-plugins-scheduler",
                "plugins": {
                    "multiPoint": {
                        "enabled": [{"name": "Coscheduling"}],
                        "disabled": [{"name": "PrioritySort"}],
                    }
                },
            }
        ],
    }
    path = server.kubeconfig.with_name("coscheduling.json")
    path.write_text(json.dumps(config))
    # Every 30 s it looks for pods that it has not tried for so long.
    return working(
        program, server, f"--config={path}", "--pod-max-in-unschedulable-pods-duration=5s"
    )


def add_node(
    server: ApiServer, name: str, *, taints: list[_Object] | None = None, **devices: str
) -> None:
    """Add a node that is ready, as far as its status says; nobody runs on it."""
    server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    room = {"cpu": str(CPUS), "memory": "8Gi", "pods": "110", **devices}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    patches = {
        f"/api/v1/nodes/{name}/status": {
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]}
        },
        # Admission gives each new node the taint of one that is not ready.
        f"/api/v1/nodes/{name}": {"spec": {"taints": taints}},
    }
    for path, patch in patches.items():
        server.merge(path, patch)


def priority(role: str, value: int) -> _Object:
    """The priority of a role's pods, which take no node from others."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"test-{role}"},
        "value": value,
        "preemptionPolicy": "Never",
    }


def let_pods_go(space: Namespace, end: threading.Event) -> None:
    """Do what kubelets do with deleted pods: let them end."""
    while not end.wait(0.1):
        for name, pod in space.pods().items():
            if "deletionTimestamp" in pod["metadata"]:
                space.delete_pod(name)
