"""The commands of the page Getting started train a job and fetch its model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.integration.kubelet import serving
from tests.integration.test_notebook import environment, train
from tools.cluster.binaries import binary

if TYPE_CHECKING:
    from tests.integration.jobs import Namespace

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/getting-started.md").read_text()

pytestmark = pytest.mark.timeout(180)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def programs(folder: Path) -> Path:
    """A folder with tftj, as an installation has it, and kubectl."""
    tftj = folder / "tftj"
    tftj.write_text(f'#!/bin/sh\nexec {sys.executable} -m tftraining.cli "$@"\n')
    tftj.chmod(0o755)
    (folder / "kubectl").symlink_to(binary("kubectl"))
    return folder


def test_the_commands_of_the_page_train_and_fetch_a_model(space: Namespace, tmp_path: Path) -> None:
    export = tmp_path / "volume/checkpoints/export/3000"
    export.mkdir(parents=True)
    (export / "saved_model.pb").write_bytes(b"graph")
    here = tmp_path / "here"
    here.mkdir()
    (here / "task.py").write_text(blocks("python")[0])
    (here / "claim.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "bin").mkdir()
    path = f"{programs(tmp_path / 'bin')}:{os.environ['PATH']}"
    variables = {**environment(space, tmp_path), "PATH": path}

    def bash(command: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", command],
            cwd=here,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    _, local, claim, training, clean = blocks("bash")
    bash(local.splitlines()[0])
    (_, planned) = yaml.safe_load_all((here / "sums.yaml").read_text())
    bash(claim)
    with serving(space.server, f"{space.name}-node", tmp_path / "volume") as node:
        kubelet = threading.Thread(target=train, args=(space, node))
        kubelet.start()
        shown = bash(training)
        kubelet.join()
    assert f"sums: submitted to namespace {space.name}\n" in shown
    assert "accuracy" in shown
    assert (here / "model/3000/saved_model.pb").read_bytes() == b"graph"
    submitted = space.job("sums")["spec"]
    for name, given in planned["spec"].items():
        assert {**submitted[name], **given} == submitted[name], "the file for local runs is the job"
    assert bash(clean.splitlines()[0]).startswith("sums: ")
