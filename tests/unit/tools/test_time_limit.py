"""What a run has no time left for is skipped by its name, and nothing else is."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import time_limit


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [
        pytest.param(-1.0, "1 skipped", id="its end has come"),
        pytest.param(600.0, "1 passed", id="there is time left"),
        pytest.param(None, "1 passed", id="there is no limit"),
    ],
)
def test_only_what_would_begin_too_late_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, outcome: str
) -> None:
    monkeypatch.delenv(time_limit.VARIABLE, raising=False)
    if seconds is not None:
        monkeypatch.setenv(time_limit.VARIABLE, str(time.time() + seconds))
    test = tmp_path / "test_it.py"
    test.write_text("def test_it() -> None: ...\n")

    command = [sys.executable, "-m", "pytest", "-p", "tools.time_limit", "-c", "/dev/null"]
    ran = subprocess.run([*command, test], capture_output=True, text=True, check=True, cwd=ROOT)

    assert f"{outcome} in" in ran.stdout
