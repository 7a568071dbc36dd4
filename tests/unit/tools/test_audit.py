"""What pip-audit says is read as what was asked, what was not, and what is vulnerable."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import audit
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


BLOCKED = (
    "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed",
    "ERROR:pip_audit._cli:Tip: your network may be blocking this service.",
)
NO_HASH = ("ERROR:pip_audit._cli:requirement foo==1.0 does not contain a hash",)


@pytest.mark.parametrize(
    ("said", "code", "printed"),
    [
        pytest.param(BLOCKED, 0, f"skipped, the index cannot be asked: {BLOCKED[0]}", id="network"),
        pytest.param(NO_HASH, 1, f"failed: {NO_HASH[0]}", id="a lock file that cannot be read"),
    ],
)
def test_only_where_the_index_does_not_answer_nothing_is_audited(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    said: tuple[str, ...],
    code: int,
    printed: str,
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\ncat >&2 <<'END'\n" + "\n".join(said) + "\nEND\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(audit, "_PROGRAM", str(program))
    monkeypatch.setattr(audit, "LOCKS", ("dev",))

    assert audit.main() == code
    assert capsys.readouterr().out == f"requirements/dev.lock: {printed}\n"
