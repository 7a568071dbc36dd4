"""The guide's example, as it stands on the page, under every strategy."""

import json
import re
import textwrap
from pathlib import Path

from harness import ROOT, Computer, Process, Servers

PAGE = (ROOT / "docs/guide/user-code.md").read_text()
EXAMPLE, TRAIN_STEP = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def learned(process: Process) -> dict[str, float]:
    assert process.ends() == 0, process.log
    done = json.loads(process.last_words)
    assert done["step"] == done["totalSteps"]
    assert done["metrics"]["mae"] < 0.1
    return dict(done["metrics"])


def mounted(folder: Path, **files: str) -> Path:
    """A ConfigMap volume as the kubelet makes it: links through a link to a dated folder."""
    dated = folder / "..2026_11_21"
    dated.mkdir(parents=True)
    (folder / "..data").symlink_to(dated.name)
    for name, text in files.items():
        (dated / f"{name}.py").write_text(text)
        (folder / f"{name}.py").symlink_to(f"..data/{name}.py")
    return folder


def test_the_manifest_carries_the_example_of_the_page() -> None:
    manifest = (ROOT / "examples/user-code.yaml").read_text()

    assert textwrap.indent(EXAMPLE, " " * 4) in manifest
    code = [line for line in EXAMPLE.splitlines() if line.strip()]
    assert len(code) <= 20


def test_it_runs_alone(here: Computer) -> None:
    (here.folder / "example.py").write_text(EXAMPLE)

    learned(here.start("laptop", "--task=example.py", "--epochs=5"))


def test_it_runs_from_a_configmap_under_parameter_servers(here: Computer, servers: Servers) -> None:
    network, at, rest = EXAMPLE.partition("def dataset")
    data = f"import tensorflow as tf\n\n\n{at}{rest}"
    importing = f"{network}from data import callbacks, dataset\n"
    folder = mounted(here.folder / "task", task=importing, data=data)

    chief = here.start(
        "chief", f"--task={folder}/task.py", "--epochs=5", env=servers.cluster.env("chief")
    )

    learned(chief)


def test_it_runs_mirrored_with_a_step_of_its_own(here: Computer) -> None:
    (here.folder / "example.py").write_text(f"{EXAMPLE}\n\n{TRAIN_STEP}")

    metrics = learned(
        here.start(
            "mirrored",
            "--task=example.py",
            "--epochs=5",
            "--batch-size=32",
            "--logical-cpus=2",
            env={"TFTRAINING_STRATEGY": "Mirrored"},
        )
    )

    assert metrics["size"] > 0
