"""Asks the Python index for known vulnerabilities of what is locked (`make audit`, in CI).

It asks for each package. What could not be asked is named and skipped, never counted as safe.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LOCKS = ("operator", "trainer", "trainer-gpu", "dev", "trainer-test", "trainer-test-2.20", "uv")

_PROGRAM = ".venv/bin/pip-audit"
_OPTIONS = ("--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json")
_UNANSWERED = (
    *("Could not connect", "not redirecting properly"),
    *("ServiceError", "requests.exceptions."),
)
"""In what pip-audit says of an index that does not answer, or not as it should."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What is known of the packages of one lock file."""

    asked: int = 0
    skipped: list[str] = field(default_factory=list)
    """Packages that the index does not know."""
    vulnerable: list[str] = field(default_factory=list)
    """Package, version and vulnerability."""

    def __str__(self) -> str:
        parts = [f"{self.asked} asked, {len(self.vulnerable)} vulnerable", *self.vulnerable]
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped: {', '.join(self.skipped)}")
        return "\n  ".join(parts)


def read(document: Mapping[str, Any]) -> Audit:
    """Read what pip-audit says in JSON."""
    found = Audit(sum("skip_reason" not in each for each in document["dependencies"]))
    for each in document["dependencies"]:
        if "skip_reason" in each:
            found.skipped.append(each["name"])
        for known in each.get("vulns", ()):
            fixed = ", ".join(known["fix_versions"]) or "nothing yet"
            vulnerable = f"{each['name']} {each['version']}: {known['id']}, fixed by {fixed}"
            found.vulnerable.append(vulnerable)
    return found


def unanswered(done: subprocess.CompletedProcess[str]) -> str:
    """Return what pip-audit says of an index that does not answer, "" if it failed otherwise."""
    lines = done.stderr.strip().splitlines()
    return next((line for line in lines if any(words in line for words in _UNANSWERED)), "")


def why(done: subprocess.CompletedProcess[str]) -> str:
    """Return why pip-audit printed no document: the last line of its errors, else its exit code."""
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"pip-audit exited with code {done.returncode} and said nothing"


def main() -> int:
    """Audit every lock file; return the exit code.

    It is 1 if something vulnerable is locked, or if an index that answers was not asked.
    """
    wrong = False
    for name in LOCKS:
        lock = f"requirements/{name}.lock"
        command = [_PROGRAM, "--requirement", lock, *_OPTIONS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout:
            audit = read(json.loads(done.stdout))
            wrong |= bool(audit.vulnerable)
            print(f"{lock}: {audit}")
        elif reason := unanswered(done):
            print(f"{lock}: skipped, the index cannot be asked: {reason}")
        else:
            wrong = True
            print(f"{lock}: failed: {why(done)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
