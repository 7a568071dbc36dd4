"""Runs the test suites and prints one summary (`make test`, `make test-unit`).

Suites that mostly wait run beside others that mostly compute. A test that this machine cannot run
is skipped, named in the summary and never counted as passed. After the e2e suite the machine must
be as it was before: anything left behind counts as a failure.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.markup import escape

from tools.cluster import ClusterError, leftovers, remove_remains
from tools.cluster.cache import cache_dir
from tools.cluster.debian import toolbox
from tools.cluster.leftovers import Record
from tools.cluster.machine import look
from tools.interrupts import Interrupts, handled
from tools.suite_program import Limit, run_and_log

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".test-logs"
"""One file per suite with its output; CI keeps them when a suite fails."""
_OPTIONS = ["--durations=15", "-p", "tools.time_limit"]
_PYTEST = [sys.executable, "-m", "pytest", *_OPTIONS]
# Only the tests are timed, not the fixture that creates the cluster.
_SCENARIO_TIMEOUT = ["--timeout=600", "-o", "timeout_func_only=true"]
# Suites with real processes depend on the load of the machine, so CI may rerun two of their tests.
# The summary names each rerun: a test that failed once has found something.
_RERUNS = ["--reruns=1", "--max-suite-reruns=2", "--rerun-show-tracebacks"]
# Tests that wait for processes leave a processor half idle.
_SIDE_BY_SIDE = ["-n2", "--dist=worksteal"]
# In order, one after the other to whoever is free: those that run alone begin once all others have.
_IN_ORDER = ["-n2", "--dist=load", "--maxschedchunk=1"]
# Of the image's TensorFlow, or of another version, as `make test-trainer` has it.
_TRAINER_VENV = "-".join(filter(None, (".venv-trainer", os.environ.get("TENSORFLOW"))))
_UPGRADE = "tests/integration/test_upgrade.py"

SUITES: dict[str, list[str]] = {
    "unit": [*_PYTEST, "tests/unit", *_SIDE_BY_SIDE],
    "stateful": [*_PYTEST, "tests/stateful", *_SIDE_BY_SIDE],
    "protocol": [*_PYTEST, "tests/protocol"],
    "upgrade": [*_PYTEST, _UPGRADE, *_RERUNS],
    "integration": [
        *(*_PYTEST, "tests/contract", "tests/integration", f"--ignore={_UPGRADE}", *_RERUNS),
    ],
    "trainer": [
        *(str(ROOT / f"{_TRAINER_VENV}/bin/python"), "-m", "pytest"),
        *("-c", "tests/trainer/pytest.ini", "tests/trainer", *_OPTIONS, *_SIDE_BY_SIDE, *_RERUNS),
    ],
    "e2e": [
        *(*_PYTEST, "-v", "e2e/scenarios", "--ignore=e2e/scenarios/slow"),
        *(*_IN_ORDER, *_SCENARIO_TIMEOUT, *_RERUNS),
    ],
}
"""Each suite's command, the cheapest first."""

STAGES = (
    (("unit", "protocol", "trainer"), ("stateful", "upgrade", "integration")),
    (("e2e",),),
)
"""The suites of a lane run in turn, the lanes of a stage side by side: integration mostly waits.
Nothing runs beside e2e: the containers of its cluster weigh as much as 16 processes, which would
starve."""

_NOTHING_LEFT = "suites: nothing is left behind on the machine"

MOST_MINUTES = 40
"""For all suites on 2 cores, once nothing has to be built any more."""
SUITE_MINUTES = 45.0
"""For one suite; one that takes longer hangs, and is ended before CI ends the whole run."""

console = Console(highlight=False)


@dataclass(slots=True)
class Tally:
    """The results of some tests."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    """Name of each failed test, and the first line of why."""
    skipped: list[str] = field(default_factory=list)
    """Name and reason of each skipped test."""
    rerun: list[str] = field(default_factory=list)
    """The passed tests that had failed before."""

    def add(self, other: "Tally") -> None:
        """Add the results of another tally."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.rerun += other.rerun


def main(wanted: Sequence[str]) -> int:
    """Run the suites named, or all; return the exit code."""
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        console.print(f"unknown suite {unknown[0]}; the suites are: {', '.join(SUITES)}")
        return 64
    names = list(wanted) or list(SUITES)
    total, began = Tally(), time.monotonic()
    interrupts = Interrupts()
    before = _before(total) if "e2e" in names else None
    with handled(interrupts.handle):
        for stage in STAGES:
            lanes = [[name for name in lane if name in names] for lane in stage]
            for found in _run_side_by_side(lanes, interrupts):
                total.add(found)
    if interrupts.interrupted:
        total.failed.append("suites: interrupted")
    if before is not None:
        total.add(_compare(before))
    print_summary(total, time.monotonic() - began)
    return 1 if total.failed else 0


def tally(name: str, report: Path, code: int) -> Tally:
    """Read pytest's report; a run without a report, or with an error of its own, is a failure.

    The report lists a test once for each run; the last run counts.
    """
    found = Tally()
    cases = _cases(report)
    for test, (*before, case) in cases.items():
        skipped, failures = case.find("skipped"), [*case.iter("failure"), *case.iter("error")]
        if failures:
            found.failed.append(": ".join(filter(None, (test, _first_line(failures[0])))))
        elif skipped is not None:
            found.skipped.append(f"{test}: {skipped.get('message')}")
        else:
            found.passed += 1
            found.rerun += [test] * bool(before)
    if not found.failed and (code or not cases):
        found.failed.append(f"{name}: pytest ran {len(cases)} tests and exited with code {code}")
    return found


def _cases(report: Path) -> dict[str, list[ET.Element]]:
    """Return each test's runs, in their order; none of a report that is missing or cut off."""
    cases: dict[str, list[ET.Element]] = {}
    with contextlib.suppress(FileNotFoundError, ET.ParseError):
        for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - our own
            cases.setdefault(f"{case.get('classname')}::{case.get('name')}", []).append(case)
    return cases


def _first_line(failure: ET.Element) -> str:
    """Return how a failure's text begins, which is what a log that was cut should still have."""
    return (failure.get("message") or "").partition("\n")[0]


def _run_side_by_side(lanes: Sequence[Sequence[str]], interrupts: Interrupts) -> list[Tally]:
    """Run lanes of suites; the output of all but the first is shown when the first has ended."""
    first, *others = [lane for lane in lanes if lane] or [[]]
    with ThreadPoolExecutor(max_workers=len(lanes)) as pool:
        beside = [(lane, pool.submit(_run_lane, lane, interrupts, echo=False)) for lane in others]
        tallies = _run_lane(first, interrupts, echo=True)
        for lane, running in beside:
            done = running.result()
            tallies += done
            # After an interrupt the others have not begun.
            for name in lane[: len(done)]:
                sys.stdout.write((LOGS / f"{name}.log").read_text(errors="replace"))
    return tallies


def _run_lane(names: Sequence[str], interrupts: Interrupts, *, echo: bool) -> list[Tally]:
    return [_run(name, interrupts, echo=echo) for name in names if not interrupts.interrupted]


def _run(name: str, interrupts: Interrupts, *, echo: bool) -> Tally:
    if echo:
        console.rule(f"{name} tests")
    else:
        console.print(f"[dim]· {name} tests run beside these; their output follows[/]")
    began, before, hung = time.monotonic(), _processor_time(), list[str]()

    def strikes() -> None:
        hung.append(f"{name}: was ended because it still ran after {SUITE_MINUTES:.0f} minutes")
        console.print(f"[red]{hung[-1]}[/]", soft_wrap=True)

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [*SUITES[name], f"--junitxml={report}"]
        limit = Limit(60 * SUITE_MINUTES, strikes)
        code = run_and_log(command, LOGS / f"{name}.log", interrupts, limit, echo=echo)
        found = tally(name, report, code)
        found.failed += hung
    seconds = time.monotonic() - began
    work, idle = (after - b for after, b in zip(_processor_time(), before, strict=True))
    busy = f", processors {work / (work + idle):.0%} busy" if work + idle else ""
    console.print(f"[dim]{name}: {seconds:.0f} s{busy}[/]")
    return found


def _processor_time() -> tuple[int, int]:
    """Read how long this machine's processors have worked and been idle, in ticks; 0 if unknown."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0, 0
    user, nice, system, idle, waiting, *others = map(int, fields[:8])
    return user + nice + system + sum(others), idle + waiting


def _before(total: Tally) -> Record | None:
    """Record the machine's state once nothing of an earlier run that was cut off is left.

    Where that cannot be done, or another run changes it, there is nothing to compare with.
    """
    try:
        if not look().why_no_engine:
            # Its end would otherwise fall into this run, and count as a change made by this run.
            for line in remove_remains(say=console.print):
                console.print(f"[red]could not be removed[/] {escape(line)}")
        return _record()
    except ClusterError as error:
        total.skipped.append(f"{_NOTHING_LEFT}: {error}")
        console.print(f"[yellow]skipped:[/] {escape(total.skipped[-1])}", soft_wrap=True)
        return None


def _record() -> Record | None:
    """Record what a cluster may leave behind; None where no engine of ours can run."""
    if look().why_no_engine:
        return None
    return leftovers.record(toolbox(console.print), cache_dir())


def _compare(before: Record) -> Tally:
    found = Tally()
    try:
        after = _record()
    except ClusterError as error:
        return Tally(failed=[f"{_NOTHING_LEFT}: {error}"])
    lines = leftovers.compare(before, after) if after is not None else []
    if lines:
        for line in lines:
            console.print(f"[red]left behind[/] {escape(line)}")
        found.failed.append(_NOTHING_LEFT)
    else:
        found.passed += 1
    return found


def print_summary(total: Tally, seconds: float) -> None:
    """Print every test that did not simply pass, then how long all took, and the counts."""
    console.rule("summary")
    for skipped in total.skipped:
        console.print(f"[yellow]skipped:[/] {escape(skipped)}", soft_wrap=True)
    for test in total.rerun:
        console.print(f"[yellow]failed, then passed on rerun:[/] {escape(test)}", soft_wrap=True)
    for failed in total.failed:
        console.print(f"[red]FAILED:[/] {escape(failed)}", soft_wrap=True)
    console.print(f"{seconds / 60:.1f} minutes in all")
    if seconds > 60 * MOST_MINUTES:
        console.print(
            f"[yellow]longer than the {MOST_MINUTES} minutes that all suites may take once nothing "
            "has to be built; which of them took how long stands above, and in CONTRIBUTING.md[/]",
            soft_wrap=True,
        )
    counts = (total.passed, len(total.failed), len(total.skipped))
    console.print("{} passed, {} failed, {} skipped".format(*counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
