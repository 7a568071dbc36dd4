"""What pip-audit says is read as what was asked, what was not, and what is vulnerable."""

import subprocess
import sys

import pytest

from tools.audit import Audit, read, why

KNOWN = {"id": "PYSEC-2030-1", "fix_versions": ["2.0", "1.5.1"], "aliases": [], "description": ""}
DOCUMENT = {
    "dependencies": [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "1.5", "vulns": [KNOWN, {**KNOWN, "fix_versions": []}]},
        {"name": "unknown", "skip_reason": "Dependency not found"},
    ],
    "fixes": [],
}


def test_what_is_vulnerable_is_named_with_its_fix() -> None:
    found = read(DOCUMENT)
    assert found.vulnerable == [
        "bad 1.5: PYSEC-2030-1, fixed by 2.0, 1.5.1",
        "bad 1.5: PYSEC-2030-1, fixed by nothing yet",
    ]
    assert str(found).startswith("2 asked, 2 vulnerable\n")


def test_what_could_not_be_asked_is_not_counted_as_asked() -> None:
    only_unknown = {"dependencies": DOCUMENT["dependencies"][2:], "fixes": []}
    assert read(only_unknown) == Audit(0, ["unknown"])
    assert str(read(only_unknown)) == "0 asked, 0 vulnerable\n  1 skipped: unknown"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        pytest.param("import sys; sys.exit('a\\nno network\\n')", "no network", id="the last line"),
        pytest.param("raise SystemExit(3)", "exited with code 3 and said nothing", id="nothing"),
    ],
)
def test_why_nothing_could_be_asked(program: str, reason: str) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert why(done).endswith(reason)
