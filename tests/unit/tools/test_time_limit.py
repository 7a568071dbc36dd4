"""What a run has no time left for is skipped by its name, and nothing else is."""

import os
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


FAKE_MAKE = """\
#!/usr/bin/env python3
import os, signal, sys, time
def ended(*_):
    os.write(1, b"cleaned up\\n")  # while the print below may not be done
    sys.exit(1)
signal.signal(signal.SIGTERM, ended)
print(*sys.argv[1:], float(os.environ["TESTS_END"]) - time.time() > 4000, flush=True)
time.sleep(8)
"""


def test_a_run_in_ci_that_is_asked_to_end_cleans_up(tmp_path: Path) -> None:
    """Whoever ends it may know its own process alone."""
    make = tmp_path / "make"
    make.write_text(FAKE_MAKE)
    make.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    with subprocess.Popen([ROOT / ".ci/run"], env=env, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "test True\n"
        run.terminate()
        rest, _ = run.communicate(timeout=20)

    assert rest == "cleaned up\n"
