"""make takes the Python that there is, or says which one is required."""

import re
import sys
from pathlib import Path

import pytest

MAKEFILE = (Path(__file__).parents[3] / "Makefile").read_text()


@pytest.mark.parametrize(
    ("version", "fits"),
    [((3, 11, 3), False), ((3, 11, 4), True), ((3, 13, 9), True), ((3, 14, 0), False)],
)
def test_a_python_without_wheels_of_tensorflow_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], *, fits: bool
) -> None:
    (check,) = re.findall(r"python3 -c '(import sys.*)'", MAKEFILE)
    monkeypatch.setattr(sys, "version_info", version)

    with pytest.raises(SystemExit) as ended:
        exec(check)  # noqa: S102 - it is the Makefile's

    assert ended.value.code == (False if fits else "Python 3.11.4 to 3.13 is required")


def test_no_environment_has_another_python_than_that_of_the_machine() -> None:
    (options,) = re.findall(r"^VENV := venv (.*)$", MAKEFILE, re.MULTILINE) or [""]

    assert "--no-python-downloads --python python3" in options
    assert "$(UV) venv" not in MAKEFILE


@pytest.mark.parametrize("target", ["test", "test-trainer"])
def test_the_tensorflow_that_the_trainers_tests_are_to_run_with_is_installed(target: str) -> None:
    (needs,) = re.findall(rf"^{target}: (.*) ##", MAKEFILE, re.MULTILINE)

    assert "$(TENSORFLOW_VENV)/ready" in needs.split()
