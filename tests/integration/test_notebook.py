"""The notebook of the docs runs from its first to its last cell, with the real operator."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.integration.kubelet import Node, serving
from tools.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.jobs import Namespace

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/guide/client.ipynb"
REPORT = json.loads((ROOT / "tests/contract/progress.json").read_text())["done"]
PODS = ("sums-chief-0", "sums-ps-0", "sums-worker-0", "sums-worker-1")

pytestmark = pytest.mark.timeout(180)


def train(space: Namespace, node: Node) -> None:
    """Do as the kubelets of the job's pods do, and then that of the model's reader."""
    for pod in sorted(space.wait_for_pods(*PODS), key=lambda name: "-chief-" in name):
        node.run(space, pod)
    eventually(lambda: space.status("sums").get("state") == "Running", "it runs")
    space.end("sums-chief-0", 0, json.dumps(REPORT))
    reader = eventually(
        lambda: next((name for name in space.pods() if "model-reader" in name), None), "its pod", 60
    )
    node.run(space, reader)


def environment(space: Namespace, folder: Path) -> dict[str, str]:
    """The variables of the kernel, with the namespace as that of the context."""
    config = json.loads(space.server.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = space.name
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    return {
        "HOME": str(folder),
        "JUPYTER_PLATFORM_DIRS": "1",
        "KUBECONFIG": str(kubeconfig),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "operator"),
    }


def outputs(notebook: Any, kind: str) -> list[Any]:
    """What the cells showed in one form, "" for a cell that has it not."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = ([output.get("data", {}) for output in cell.outputs] for cell in cells)
    return [next((data[kind] for data in each if kind in data), "") for each in shown]


def test_the_notebook_trains_and_fetches_a_model(
    space: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = tmp_path / "volume/checkpoints/export/3000"
    export.mkdir(parents=True)
    (export / "saved_model.pb").write_bytes(b"graph")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(cell.get("outputs", []) == [] for cell in notebook.cells), "clear them"
    for name, value in environment(space, tmp_path).items():
        monkeypatch.setenv(name, value)
    with serving(space.server, f"{space.name}-node", tmp_path / "volume") as node:
        kubelet = threading.Thread(target=train, args=(space, node))
        kubelet.start()
        client = NotebookClient(
            notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute()
        kubelet.join()
    connected, _, made, waited, metrics, _, model, deleted = outputs(notebook, "text/plain")
    assert connected == f"<TFTrainingClient of namespace {space.name}>"
    assert made.startswith(f"<TrainingJob {space.name}/sums: ")
    assert "sums: Succeeded: 3000 steps" in waited
    assert "'name': 'accuracy', 'value': 0.9731" in metrics
    assert model == "['saved_model.pb']"
    assert deleted == "'sums: deleted'"
    assert "Succeeded" in outputs(notebook, "text/html")[3]
    said = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    assert any(each.get("text") == "chief-0 the log of sums-chief-0\n" for each in said)
    assert (tmp_path / "sums-model/3000/saved_model.pb").read_bytes() == b"graph"
