"""`make test`: runs the suites one after the other and ends with one summary of them all.

What cannot run here is skipped by its tests, named in the summary and never counted as passed.
Afterwards the machine must be as it was: what is left behind counts as a failure.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.markup import escape

from tools.cluster import leftovers
from tools.cluster.cache import cache_dir
from tools.cluster.debian import toolbox
from tools.cluster.leftovers import Picture
from tools.cluster.machine import look

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".test-logs"
"""What each suite printed, for a CI that keeps files."""
_PYTEST = [sys.executable, "-m", "pytest"]
# What the cluster takes to come up is no test's fault: only the tests themselves are timed.
_STORY_TIMES = ["--timeout=420", "-o", "timeout_func_only=true"]
# Real processes share the machine with whatever else it does. A test of them that fails is told
# once more, and the summary names it; a third is no accident any more.
_TOLD_TWICE = ["--reruns=1", "--max-suite-reruns=2", "--rerun-show-tracebacks"]

SUITES: dict[str, list[str]] = {
    "unit": [*_PYTEST, "tests/unit"],
    "stateful": [*_PYTEST, "tests/stateful"],
    "protocol": [*_PYTEST, "tests/protocol"],
    "integration": [*_PYTEST, "tests/contract", "tests/integration", *_TOLD_TWICE],
    "trainer": [
        *(str(ROOT / ".venv-trainer/bin/python"), "-m", "pytest"),
        *("-c", "tests/trainer/pytest.ini", "tests/trainer", *_TOLD_TWICE),
    ],
    "e2e": [*_PYTEST, "e2e/scenarios", "--ignore=e2e/scenarios/slow", *_STORY_TIMES, *_TOLD_TWICE],
}
"""Each suite's command, in the order of their cost."""

console = Console(highlight=False)


@dataclass(slots=True)
class Tally:
    """What became of some tests."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Name and reason of each."""
    told_twice: list[str] = field(default_factory=list)
    """Which of the passed had failed before."""

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.told_twice += other.told_twice


def main(wanted: Sequence[str]) -> int:
    """Run suites, all when none is named; return the exit code."""
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        console.print(f"unknown suite {unknown[0]}: one of {', '.join(SUITES)}")
        return 64
    names = list(wanted) or list(SUITES)
    before = _picture() if "e2e" in names else None
    total = Tally()
    for name in names:
        console.rule(f"{name} tests")
        began = time.monotonic()
        total.add(_run(name))
        console.print(f"[dim]{name}: {time.monotonic() - began:.0f} s[/]")
    if before is not None:
        total.add(_left_behind(before))
    _summarise(total)
    return 1 if total.failed else 0


def tally(name: str, report: Path, code: int) -> Tally:
    """Read what pytest wrote; a run that wrote nothing or ended oddly is a failure itself."""
    found = Tally()
    # A test that is told again stands there again: its last time counts.
    cases: dict[str, list[ET.Element]] = {}
    if report.exists():
        for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - our own
            cases.setdefault(f"{case.get('classname')}::{case.get('name')}", []).append(case)
    for test, (*before, case) in cases.items():
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            found.failed.append(test)
        elif skipped is not None:
            found.skipped.append(f"{test}: {skipped.get('message')}")
        else:
            found.passed += 1
            found.told_twice += [test] * bool(before)
    if code and not found.failed:
        found.failed.append(f"{name}: the test runner ended with {code}")
    return found


def _run(name: str) -> Tally:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = _shown_and_kept([*SUITES[name], f"--junitxml={report}"], LOGS / f"{name}.log")
        return tally(name, report, code)


def _shown_and_kept(command: list[str], log: Path) -> int:
    """Run a command whose output goes to the terminal and to a file; return its exit code."""
    log.parent.mkdir(exist_ok=True)
    with (
        log.open("wb") as kept,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        assert process.stdout is not None
        for line in iter(process.stdout.readline, b""):
            kept.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return process.returncode


def _picture() -> Picture | None:
    """Take a picture of what a cluster may leave; None where we never start an engine."""
    if look().why_no_engine:
        return None
    return leftovers.take(toolbox(console.print), cache_dir())


def _left_behind(before: Picture) -> Tally:
    found = Tally()
    after = _picture()
    lines = leftovers.compare(before, after) if after is not None else []
    if lines:
        for line in lines:
            console.print(f"[red]left behind[/] {escape(line)}")
        found.failed.append("suites: the machine is as it was before")
    else:
        found.passed += 1
    return found


def _summarise(total: Tally) -> None:
    console.rule("summary")
    for skipped in total.skipped:
        console.print(f"[yellow]SKIPPED, not passed:[/] {escape(skipped)}", soft_wrap=True)
    for test in total.told_twice:
        console.print(f"[yellow]FAILED, then passed:[/] {escape(test)}", soft_wrap=True)
    for failed in total.failed:
        console.print(f"[red]FAILED:[/] {escape(failed)}", soft_wrap=True)
    counts = f"{total.passed} passed, {len(total.failed)} failed"
    counts += f", {len(total.told_twice)} of the passed told twice" if total.told_twice else ""
    console.print(counts + (f", {len(total.skipped)} skipped" if total.skipped else ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
