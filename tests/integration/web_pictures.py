"""Makes the pictures of docs/guide/web: `make screenshots`.

The page is that of `tftj web`, and the API server and the operator are real; what kubelets and a
chief would report is written here.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.apiserver import PROGRAMS, ApiServer, running
from tests.conftest import ROOT
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tests.integration.test_web import served
from tools.browser import Page, browsing, program
from tools.cluster.binaries import binary
from tools.waiting import eventually

PICTURES = ROOT / "docs/guide/web"
WIDTHS = (390, 1280)
NAMESPACE = "vision"
TRACEBACK = """\
Traceback (most recent call last):
  File "/task/task.py", line 11, in dataset
    labels = [LABELS[name] for name in names]
KeyError: 'bird'
"""


def main() -> int:
    """Make the pictures; return the exit code."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running({name: binary(name) for name in PROGRAMS}) as server,
        browsing(program()) as page,
    ):
        server.serve_crd(ROOT / "crds")
        operator = Operator(server.kubeconfig, Path(folder) / "log")
        operator.start()
        try:
            space = _prepared(server)
        finally:
            operator.stop()  # it would miss the chief whose reports are written here
        _take(space, page)
    return 0


def _prepared(server: ApiServer) -> Namespace:
    """Have a job that fails, two that wait and one that runs."""
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    space = Namespace(server, NAMESPACE)
    _fail(space)
    _wait(space)
    space.run(*_pods(space, "mnist", worker={"replicas": 2}))
    space.wait_for("PodsReady")
    return space


def _take(space: Namespace, page: Page) -> None:
    """Look at the jobs while one of them trains, and write what is seen."""
    PICTURES.mkdir(exist_ok=True)
    with served(space) as (url, _):
        page.look(WIDTHS[1])
        page.open(url)
        for step in range(100, 3001, 100):
            loss = 0.08 + 2.2 * math.exp(-step / 700) + 0.06 * math.sin(step)
            _report(space, step, f"{loss:.4f}")
        page.wait_for("document.querySelector('main progress')?.value === 3000")
        for name, path in {"overview": "", "job": "mnist", "failed": "pets"}.items():
            page.open(f"{url}jobs/{NAMESPACE}/{path}" if path else url)
            page.wait_for("document.getElementById('live')?.textContent.startsWith('Live')")
            for width in WIDTHS:
                for dark in (False, True):
                    page.look(width, dark=dark)
                    shade = "dark" if dark else "light"
                    page.picture(PICTURES / f"{name}-{width}-{shade}.png", most=1000)
    assert page.problems == []


def _pods(space: Namespace, name: str, **spec: Any) -> list[str]:
    """Submit a job; return the names of its pods, the chief last."""
    space.apply(manifest(name, **spec))
    eventually(lambda: f"{name}-chief-0" in space.pods(), f"the pods of {name}")
    return sorted((pod for pod in space.pods() if pod.startswith(name)), key=_is_chief)


def _is_chief(pod: str) -> bool:
    return "-chief-" in pod


def _fail(space: Namespace) -> None:
    space.run(*_pods(space, "pets", runPolicy={"backoffLimit": 0}))
    space.wait_for("PodsReady", name="pets")
    space.end("pets-chief-0", 64, TRACEBACK)
    space.wait_for("Finished", name="pets")


def _wait(space: Namespace) -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    unschedulable["message"] = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    for pod in _pods(space, "translate", worker={"replicas": 8}):
        space.set_pod(pod, phase="Pending", conditions=[unschedulable])
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "trianer:1"'}
    container = {"name": "tensorflow", "image": "trianer:1", "imageID": "", "ready": False}
    for pod in _pods(space, "segment"):
        status = container | {"restartCount": 0, "state": {"waiting": waiting}}
        space.set_pod(pod, phase="Pending", containerStatuses=[status])
    for name, state in (("translate", "Unschedulable"), ("segment", "ImagePullBackOff")):
        eventually(lambda: space.status(name).get("state") == state, f"{name} waits")  # noqa: B023


def _report(space: Namespace, step: int, loss: str) -> None:
    """Write progress into the job, as the operator does when the chief reports."""
    total, now = 5000, space.status()["startTime"]
    percent, left = 100 * step // total, (total - step) // 40
    space.patch_status(
        "mnist",
        {
            "message": "the chief trains",
            "progress": {
                "step": step,
                "totalSteps": total,
                "percent": percent,
                "percentText": f"{percent}%",
                "stepsPerSecond": "40",
                "etaSeconds": left,
                "etaText": f"{left}s",
                "metrics": [{"name": "loss", "value": loss}],
                "loss": loss,
                "updatedAt": now,
            },
        },
    )


if __name__ == "__main__":
    sys.exit(main())
