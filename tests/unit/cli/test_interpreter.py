"""A program that --python names and that is no Python is told by what it says itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining.cli import interpreter
from tftraining.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param("echo first >&2; echo no such option -c >&2; exit 2", "no such option -c"),
        pytest.param("exit 3", "exit code 3"),
    ],
    ids=["it says why", "it says nothing"],
)
def test_what_is_no_python_is_told_in_one_line(script: str, told: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(InputError) as refused:
        interpreter.find(str(program), ("tftrainer",), fix="")
    assert str(refused.value) == f"--python: {program} does not run as a Python: {told}"
