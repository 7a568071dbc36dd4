"""A table of cases that has become empty fails; it is not skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize("config", ["pyproject.toml", "tests/trainer/pytest.ini"])
def test_an_empty_table_of_cases_is_an_error(tmp_path: Path, config: str) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("import pytest\n@pytest.mark.parametrize('case', [])\ndef test_it(case): ...\n")
    # The environment of these tests has a plugin that warns without it; the trainer's has not.
    scope = ("-o", "asyncio_default_fixture_loop_scope=function")
    options = ("-p", "no:cacheprovider", *scope, "-c", config)

    command = [sys.executable, "-m", "pytest", *options, test]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert "Empty parameter set in 'test_it'" in ran.stdout
    assert ran.returncode == pytest.ExitCode.INTERRUPTED
