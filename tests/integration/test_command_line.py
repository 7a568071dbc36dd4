"""The commands' exit codes and messages, as a user meets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.builders import a_job
from tests.unit.cli.plans import a_file

ROOT = Path(__file__).parents[2]


def tftj(*arguments: str, cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tftraining.cli", *arguments],
        cwd=cwd,
        input=given,
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": "/usr/bin:/bin", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("arguments", "given", "told"),
    [
        pytest.param(
            ("run", "job.yaml"),
            "",
            "--local is required: it runs on this computer; to run the job in a cluster, use tftj"
            " submit job.yaml",
            id="run without a place",
        ),
        pytest.param(
            ("run", "--local", "absent.yaml"),
            "",
            "cannot read absent.yaml: No such file",
            id="no such file",
        ),
        pytest.param(
            ("run", "--local", "-"),
            a_file(a_job().with_spec(ps={"replicas": 0})),
            "-: spec.ps: strategy ParameterServer needs parameter servers",
            id="a rule of the CRD",
        ),
        pytest.param(
            ("run", "--local", "-"),
            a_file(a_job().with_policy(suspend=True)),
            "spec.runPolicy.suspend: set it to false",
            id="a suspended job",
        ),
        pytest.param(
            ("run", "--local", "-"),
            a_file(a_job().with_container(env=[{"name": "TF_CONFIG", "value": ""}])),
            "the template of ps sets the variable TF_CONFIG, which the operator sets",
            id="a template that makes no pod",
        ),
        pytest.param(
            ("run", "--local", "-", "--checkpoint-dir=x"),
            a_file(a_job()),
            "--checkpoint-dir: the job saves no checkpoints",
            id="a folder that nothing uses",
        ),
        pytest.param(
            ("run", "--local", "-", "--env=A"),
            "",
            "--env: A must have the form NAME=VALUE",
            id="no pair",
        ),
        pytest.param(
            ("run", "--local", "-"),
            a_file(a_job().with_container(workingDir="/no/such")),
            "mnist-ps-0: folder /no/such does not exist",
            id="a folder that is not there",
        ),
        pytest.param(
            ("run", "--local", "-", "--python=no-such-python"),
            a_file(a_job()),
            "--python: no program no-such-python",
            id="no such Python",
        ),
        pytest.param(
            ("run", "--local", "-"),
            a_file(a_job()),
            "has no tftrainer and no tensorflow and no tf_keras. Choose a Python",
            id="a Python without the trainer",
        ),
        pytest.param(
            ("tensorboard", "x/y"), "", "x/y: no such file or folder", id="no such folder"
        ),
        pytest.param(
            ("tensorboard", "--python=sh", "."), "", "does not run as a Python", id="no Python"
        ),
    ],
)
def test_bad_input_ends_with_2_and_says_what_to_do(
    arguments: tuple[str, ...], given: str, told: str, tmp_path: Path
) -> None:
    done = tftj(*arguments, cwd=tmp_path, given=given)
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_without_kubectl_a_job_of_the_cluster_cannot_be_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tftraining.cli", "tensorboard", "mnist"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "kubectl is not on the PATH" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ((), "tensorboard"),
        (("run",), "--checkpoint-dir"),
        (("tensorboard",), "--namespace"),
    ],
)
def test_help_names_what_there_is(command: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = tftj(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert told in done.stdout


def test_tensorboard_of_a_run_that_never_was_says_how_to_run_it(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(a_file(a_job().with_evaluator()))
    done = tftj("tensorboard", "job.yaml", cwd=tmp_path)
    assert "tftj run --local job.yaml" in " ".join(done.stderr.split())
    assert done.returncode == 2
