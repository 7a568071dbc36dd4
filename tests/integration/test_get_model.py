"""`tftj get-model` and `tftj metrics`: through a real API server, from a pod of the test's node."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.core.podtemplate import restricted_container, restricted_pod

from tests.integration.jobs import Namespace, manifest
from tests.integration.kubelet import Node, serving
from tests.integration.test_cluster_commands import command, environment, tftj
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

pytestmark = pytest.mark.timeout(120)

CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}
IMAGE = "example.com/trainer:1"
STATUS = {
    "model": {
        "step": 810,
        "path": "/checkpoints/export/810",
        "formats": ["saved_model"],
        "metrics": [{"name": "accuracy", "value": "0.9912"}],
    }
}


@pytest.fixture
def node(apiserver: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Node]:
    """A node; the job's volume has a model of several chunks."""
    export = tmp_path / "volume/checkpoints/export/810/variables"
    export.mkdir(parents=True)
    (export / "data").write_bytes(os.urandom(9 << 20))
    with serving(apiserver, f"{namespace}-node", tmp_path / "volume") as node:
        yield node


@pytest.fixture
def trained(apiserver: ApiServer, namespace: str, crd: str) -> Namespace:
    """A strict namespace with a job that has exported a model; no operator acts on it."""
    assert crd
    space = Namespace(apiserver, namespace)
    space.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    space.apply(manifest(checkpoint=CLAIM, runPolicy={"managedBy": "example.com/nobody"}))
    space.patch_status("mnist", {**STATUS, "trainerImage": IMAGE})
    return space


def fetching(space: Namespace, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("get-model", "mnist", f"--namespace={space.name}", *options),
        env=environment(space),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what it runs in the background with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )


def reader(space: Namespace) -> dict[str, Any]:
    return eventually(
        lambda: next((p for name, p in space.pods().items() if "model-reader" in name), None),
        "its pod",
    )


def test_the_model_comes_through_the_api_server(
    trained: Namespace, node: Node, tmp_path: Path
) -> None:
    process = fetching(trained, f"--to={tmp_path}/here")
    pod = reader(trained)
    assert pod["spec"]["containers"][0]["image"] == IMAGE
    assert pod["metadata"]["ownerReferences"][0]["uid"] == trained.job()["metadata"]["uid"]
    node.run(trained, pod["metadata"]["name"])
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert out == f"{tmp_path}/here/810\n"
    sent = tmp_path / "volume/checkpoints/export/810/variables/data"
    assert (tmp_path / "here/810/variables/data").read_bytes() == sent.read_bytes()
    assert f"deleted pod {pod['metadata']['name']}" in said
    remaining = trained.pods()
    assert all("deletionTimestamp" in each["metadata"] for each in remaining.values())


def test_what_the_pod_cannot_read_is_told(trained: Namespace, node: Node, tmp_path: Path) -> None:
    model = {**STATUS["model"], "path": "/checkpoints/export/811"}
    trained.patch_status("mnist", {"model": model})
    process = fetching(trained, f"--to={tmp_path}/here")
    node.run(trained, reader(trained)["metadata"]["name"])
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "export/811: No such file or directory" in said
    assert "Traceback" not in said
    assert list((tmp_path / "here").iterdir()) == []


def test_a_quota_that_asks_for_all_limits_takes_the_pod(trained: Namespace, tmp_path: Path) -> None:
    hard = {
        "requests.cpu": "4",
        "limits.cpu": "4",
        "requests.memory": "8Gi",
        "limits.memory": "8Gi",
    }
    path = f"/api/v1/namespaces/{trained.name}/resourcequotas"
    trained.server.request("POST", path, {"metadata": {"name": "all"}, "spec": {"hard": hard}})
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    trained.server.merge(f"{path}/all/status", {"status": status})
    container = {"name": "a", "image": "b", "securityContext": restricted_container()}
    spec = {"containers": [container], "securityContext": restricted_pod()}

    def refusal() -> str:
        pod = {"metadata": {"name": "untold"}, "spec": spec}
        pods = f"/api/v1/namespaces/{trained.name}/pods"
        message = trained.server.request("POST", pods, pod, query={"dryRun": "All"}).message
        return message if "must specify" in message else ""

    eventually(refusal, "the quota")
    process = fetching(trained, f"--to={tmp_path}/here")
    assert reader(trained)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_ctrl_c_deletes_the_pod(trained: Namespace, tmp_path: Path) -> None:
    process = fetching(trained, f"--to={tmp_path}/here")
    reader(trained)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert trained.pods() == {}


def test_metrics_are_printed_as_a_table_and_as_json(trained: Namespace) -> None:
    out, _ = tftj(trained, "metrics", "mnist")
    assert [line.split() for line in out.splitlines()] == [
        ["SOURCE", "STEP", "NAME", "VALUE"],
        ["model", "810", "accuracy", "0.9912"],
    ]
    out, _ = tftj(trained, "metrics", "mnist", "-o", "json")
    assert '"value": 0.9912' in out
