"""`tftj tensorboard` of a job in a cluster, with kubectl and an API server; no pod runs here."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver import ApiServer
from tests.integration.jobs import Namespace, manifest
from tools.cluster.binaries import binary
from tools.ports import free_port
from tools.waiting import eventually

ROOT = Path(__file__).parents[2]
IMAGE = "example.com/trainer:1"
CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}


@dataclass
class TensorBoard:
    """One `tftj tensorboard mnist`."""

    space: Namespace
    popen: subprocess.Popen[str]

    def pod(self) -> dict[str, Any]:
        """Wait for its pod."""
        return eventually(
            lambda: next((p for name, p in self.space.pods().items() if "tensorb" in name), None),
            "its pod",
        )

    def ends(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it said."""
        out, _ = self.popen.communicate(timeout=30)
        return self.popen.returncode, " ".join(out.split())


@pytest.fixture
def strict(apiserver: ApiServer, namespace: str, crd: str) -> Namespace:
    """A namespace that takes only pods of the restricted standard, with a job in it."""
    assert crd
    space = Namespace(apiserver, namespace)
    label = "pod-security.kubernetes.io/enforce=restricted"
    space.kubectl("label", "namespace", namespace, label)
    # The session's operator may run, and shall make no pods beside the ones looked for here.
    space.apply(manifest(checkpoint=CLAIM, runPolicy={"managedBy": "example.com/nobody"}))
    return space


@contextmanager
def shown(space: Namespace, *options: str) -> Iterator[TensorBoard]:
    kubectl = Path(binary("kubectl"))
    popen = subprocess.Popen(
        [
            *(sys.executable, "-m", "tftraining.cli", "tensorboard", "mnist"),
            *(f"--namespace={space.name}", f"--port={free_port()}", *options),
        ],
        env={
            "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "operator"),
            "KUBECONFIG": str(space.server.kubeconfig),
            "HOME": str(space.server.kubeconfig.parent),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield TensorBoard(space, popen)
    finally:
        popen.kill()
        popen.communicate()


def test_a_strict_namespace_takes_the_pod_and_ctrl_c_deletes_it(strict: Namespace) -> None:
    with shown(strict, f"--image={IMAGE}") as board:
        (container,) = board.pod()["spec"]["containers"]
        assert container["image"] == IMAGE
        board.popen.send_signal(signal.SIGINT)
        code, said = board.ends()
    assert code == 130
    assert "deleted pod mnist-tensorboard-" in said
    assert strict.pods() == {}


def test_an_image_that_cannot_be_pulled_is_told_and_the_pod_goes(strict: Namespace) -> None:
    with shown(strict, f"--image={IMAGE}") as board:
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        status = {"name": "tensorboard", "image": IMAGE, "imageID": "", "restartCount": 0}
        strict.set_pod(
            board.pod()["metadata"]["name"],
            phase="Pending",
            containerStatuses=[{**status, "ready": False, "state": {"waiting": waiting}}],
        )
        code, said = board.ends()
    assert code == 1
    assert "did not start: ImagePullBackOff: no such image" in said
    assert strict.pods() == {}


def test_an_image_without_tensorboard_is_told(strict: Namespace) -> None:
    with shown(strict, f"--image={IMAGE}") as board:
        strict.set_pod(board.pod()["metadata"]["name"], phase="Failed")
        code, said = board.ends()
    assert code == 1
    assert "TensorBoard exited in pod mnist-tensorboard-" in said


def test_a_job_that_is_not_there_is_told(strict: Namespace) -> None:
    strict.kubectl("delete", "tftj", "mnist")
    with shown(strict) as board:
        code, said = board.ends()
    assert code == 3
    assert "no job mnist in this namespace" in said


def test_without_pods_and_image_the_user_has_to_name_one(strict: Namespace) -> None:
    with shown(strict) as board:
        code, said = board.ends()
    assert code == 2
    assert "name the trainer's image with --image" in said
    assert strict.pods() == {}


def test_ctrl_c_in_a_terminal_does_not_end_the_kubectl_that_creates_the_pod(tmp_path: Path) -> None:
    """A terminal sends it to all processes of its group; the pod would be left behind."""
    job = manifest(checkpoint=CLAIM)
    job["metadata"]["namespace"] = "default"
    (tmp_path / "job").write_text(json.dumps(job))
    pod, program = tmp_path / "pod", tmp_path / "kubectl"
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"  *'get tftrainingjobs'*) cat {tmp_path}/job;;\n"
        "  *'get pods'*) echo '{\"items\": []}';;\n"
        f"  *create*) touch {pod}; sleep 1; echo '{{}}';;\n"
        f"  *delete*) rm {pod};;\n"
        "esac\n"
    )
    program.chmod(0o755)
    port = f"--port={free_port()}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tftraining.cli", "tensorboard", "mnist", f"--image={IMAGE}", port],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "operator")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    eventually(pod.exists, "the pod")
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert not pod.exists()
