"""What the command line answers to a typo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def answer(*arguments: str) -> str:
    """Return the last line of what tftj answers to wrong use."""
    done = subprocess.run(
        [sys.executable, "-m", "tftraining.cli", *arguments],
        env={"PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("typo", "said"),
    [
        pytest.param(["lgos"], "No such command 'lgos'. Did you mean 'logs'?", id="a command"),
        pytest.param(
            ["logs", "mnist", "--fllow"],
            "No such option: --fllow (Possible options: --follow)",
            id="an option",
        ),
        pytest.param(
            ["submit", "task.py", "--epochs=5"],
            "No such option: --epochs; if the trainer is to have it, write -- before it, as in tftj"
            " submit task.py -- --epochs=5",
            id="an argument of the trainer",
        ),
        pytest.param(
            ["submit", "task.py", "--worker=5"],
            "No such option: --worker (Possible options: --workers)",
            id="an option that the trainer may have as well",
        ),
        pytest.param(["list", "--epochs=5"], "No such option: --epochs", id="nothing is like it"),
        pytest.param(
            ["logs", "mnist", "--role", "wroker"],
            "Invalid value for '--role': 'wroker' is not one of chief, worker, ps, evaluator; did"
            " you mean worker?",
            id="a value",
        ),
        pytest.param(
            ["submit", "task.py", "--strategy", "parameterserver"],
            "Invalid value for '--strategy': 'parameterserver' is not one of ParameterServer,"
            " MultiWorkerMirrored, Mirrored; did you mean ParameterServer?",
            id="a value in small letters",
        ),
        pytest.param(
            ["completion", "bsh"],
            "Invalid value for 'bash|zsh|fish': 'bsh' is not one of bash, zsh, fish; did you"
            " mean bash?",
            id="an argument",
        ),
        pytest.param(
            ["get", "mnist", "-o", "table"],
            "Invalid value for '--output' / '-o': 'table' is not one of wide, name, json, yaml",
            id="a value that is like none",
        ),
        pytest.param(
            ["submit", "task.py", "--workers", "two"],
            "Invalid value for '--workers': Input should be a valid integer, unable to parse"
            " string as an integer",
            id="no choice",
        ),
    ],
)
def test_a_typo_is_answered_with_the_nearest(typo: list[str], said: str) -> None:
    assert answer(*typo) == f"Error: {said}"
