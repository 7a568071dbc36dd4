"""Runs kind: writes its configuration, creates and deletes clusters, loads images into them."""

import re
from pathlib import Path

import yaml

from tools.cluster.binaries import program
from tools.cluster.engine import Engine
from tools.cluster.machine import Machine
from tools.cluster.shell import Argument, ClusterError, Say, run

# Of the range reserved for benchmarks, beside those of the engine's bridges.
POD_SUBNET = "198.19.128.0/18"
SERVICE_SUBNET = "198.19.192.0/20"
NETWORK = "kind"

_GATE = "GenericWorkload"
_GANGS = {
    "1.36": {
        "featureGates": {_GATE: True, "GangScheduling": True},
        "runtimeConfig": {"scheduling.k8s.io/v1alpha2": "true"},
    }
}
_GANGS_SINCE = {
    "featureGates": {_GATE: True},
    "runtimeConfig": {"scheduling.k8s.io/v1beta1": "true"},
}

_LABEL = "io.x-k8s.kind.cluster"
_RUNTIME_OF_CONTAINERD = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


def config(name: str, workers: int, machine: Machine, gangs: str = "") -> str:
    """Return kind.yaml for one control plane node and this many workers.

    With `gangs`, Kubernetes' minor version in the nodes, its own gang scheduling is turned on.
    """
    content: dict[str, object] = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": name,
        "networking": {
            "ipFamily": "ipv4",
            "apiServerAddress": "127.0.0.1",
            "podSubnet": POD_SUBNET,
            "serviceSubnet": SERVICE_SUBNET,
        },
        "nodes": [{"role": "control-plane"}, *({"role": "worker"} for _ in range(workers))],
    }
    if gangs:
        content |= _GANGS.get(gangs, _GANGS_SINCE)
    if machine.cgroup_v1:
        # kubelet refuses cgroup v1 unless it is allowed explicitly.
        kubelet = {"kind": "KubeletConfiguration", "failCgroupV1": False}
        content["kubeadmConfigPatches"] = [yaml.safe_dump(kubelet)]
    if not machine.sys_resource:
        # Without the capability no process can lower its OOM score, and no pod would start.
        content["containerdConfigPatches"] = [
            f'version = {number}\n[plugins."{plugin}"]\n  restrict_oom_score_adj = true\n'
            for number, plugin in _RUNTIME_OF_CONTAINERD.items()
        ]
    return yaml.safe_dump(content, sort_keys=False)


def create(
    engine: Engine,
    name: str,
    image: str,
    *,
    workers: int,
    folder: Path,
    say: Say,
    gangs: bool = False,
) -> Path:
    """Create a cluster, wait for its nodes, and return its kubeconfig in the folder."""
    kubeconfig, settings = folder / "kubeconfig", folder / "kind.yaml"
    minor = re.search(r":v(\d+\.\d+)", image) if gangs else None
    settings.write_text(config(name, workers, engine.machine, minor[1] if minor else ""))
    command: list[Argument] = [
        "create",
        "cluster",
        "--name",
        name,
        "--image",
        image,
        "--config",
        settings,
    ]
    run(
        [program("kind", say), *command, "--kubeconfig", kubeconfig, "--wait", "180s", "--retain"],
        env=engine.env,
    )
    return kubeconfig


def delete(engine: Engine, name: str, folder: Path) -> None:
    """Delete a cluster, complete or not."""
    run(
        [
            program("kind"),
            "delete",
            "cluster",
            "--name",
            name,
            "--kubeconfig",
            folder / "kubeconfig",
        ],
        env=engine.env,
    )


def clusters(engine: Engine) -> list[str]:
    """Return the names of the engine's clusters, incomplete ones too."""
    names = f'{{{{.Label "{_LABEL}"}}}}'
    listed = engine.docker("ps", "--all", "--filter", f"label={_LABEL}", "--format", names)
    return sorted(set(listed.split()))


def nodes(engine: Engine, name: str) -> list[str]:
    """Return the names of a cluster's nodes, which are those of their containers."""
    own = f"label={_LABEL}={name}"
    return engine.docker("ps", "--filter", own, "--format", "{{.Names}}").split()


def kubeconfig_of_nodes(engine: Engine, name: str) -> str:
    """Return an administrator's kubeconfig that works inside the cluster's nodes."""
    return run([program("kind"), "get", "kubeconfig", "--internal", "--name", name], env=engine.env)


def load(engine: Engine, name: str, image: str) -> None:
    """Load an image of the engine into the cluster's nodes unless they have it.

    With our engine the image goes through a pipe, because `kind load` writes it to disk first; with
    other engines `kind load` is used, as it knows every image store.
    """
    if not engine.ours:
        run([program("kind"), "load", "docker-image", image, "--name", name], env=engine.env)
        return
    wanted = engine.docker("image", "inspect", "--format", "{{.Id}}", image).strip()
    for node in nodes(engine, name):
        if wanted != _id_on(engine, node, image):
            take = ["exec", "--interactive", node, "ctr", "--namespace", "k8s.io"]
            # --local unpacks as it goes, which the transfer service does in a second pass.
            engine.pipe(["save", image], [*take, "images", "import", "--local", "-"])


def _id_on(engine: Engine, node: str, image: str) -> str:
    inspect = ["crictl", "inspecti", "--output", "go-template", "--template", "{{.status.id}}"]
    try:
        return engine.docker("exec", node, *inspect, image).strip()
    except ClusterError:
        return ""
