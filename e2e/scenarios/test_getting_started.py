"""A new user follows the page Getting started from an empty folder to predictions."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2e.install import ROOT
from e2e.scenarios.space import Space
from tools.pages import code_blocks

PAGE = (ROOT / "docs/guide/getting-started.md").read_text()
TENSORFLOW = ROOT / ".venv-trainer/bin/python"

LEARNED = 0.2
"""Mean absolute error of a model that has learned; always guessing the mean has 0.47."""

pytestmark = pytest.mark.skipif(
    not TENSORFLOW.exists(), reason="the predictions need .venv-trainer: run `make venv`"
)


class User:
    """Who works in a folder and a namespace with tftj, kubectl and a Python with TensorFlow."""

    def __init__(self, space: Space, folder: Path) -> None:
        self._here = folder / "here"
        self._here.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        tftj = programs / "tftj"
        tftj.write_text(f'#!/bin/sh\nexec {sys.executable} -m tftraining.cli "$@"\n')
        tftj.chmod(0o755)
        config = folder / "kubeconfig"
        config.write_text(space.cluster.kubeconfig.read_text())
        given = space.environment()
        self._environment = {
            **given,
            "PATH": f"{programs}:{given['PATH']}",
            "KUBECONFIG": str(config),
        }
        self.run(f"kubectl config set-context --current --namespace={space.name}")

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self._here / name).write_text(text)

    def run(self, commands: str) -> str:
        """Run commands of the page; return what they said."""
        return self._said(["bash", "-euc", commands], self._environment)

    def predict(self, program: str) -> str:
        """Run a program in a process that knows of TensorFlow alone."""
        return self._said([str(TENSORFLOW), "-c", program], {**os.environ, "PYTHONPATH": ""})

    def _said(self, command: list[str], environment: dict[str, str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._here,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_a_new_user_gets_from_an_empty_folder_to_predictions(space: Space, tmp_path: Path) -> None:
    task, predict = code_blocks(PAGE, "python")
    (claim,) = code_blocks(PAGE, "yaml")
    setup, trial, volume, training, clean = code_blocks(PAGE, "bash")
    user = User(space, tmp_path)
    user.write("task.py", task)
    user.write("claim.yaml", claim)
    user.run(setup.splitlines()[-1])
    (_, tried) = yaml.safe_load_all(user.run(trial.splitlines()[0].partition(">")[0]))
    user.run(volume)
    shown = user.run(training)
    assert f"sums: submitted to namespace {space.name}\n" in shown
    errors = re.findall(r"^\S+ +\d+ +mae +(\S+)$", shown, re.MULTILINE)
    assert errors, shown
    assert max(map(float, errors)) < LEARNED, shown
    submitted = space.read("tftj/sums")["spec"]
    for name, given in tried["spec"].items():
        assert {**submitted[name], **given} == submitted[name], "the file for local runs is the job"
    (predicted,) = re.findall(r"\[\[(.+)\]\]", user.predict(predict))
    assert float(predicted) == pytest.approx(1.0, abs=0.5)
    assert user.run(clean).startswith("sums: ")
    assert space.read("tftj")["items"] == []
