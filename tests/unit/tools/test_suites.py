"""The runner of the suites counts results by pytest's report and hides no failure."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import suites
from tools.cluster import ClusterError, leftovers
from tools.cluster.leftovers import Record
from tools.cluster.machine import Machine
from tools.suites import Tally, tally
from tools.waiting import eventually

ROOT = Machine(root=True, debian="trixie", cgroup_v1=False, sys_resource=True, architecture="")
REPORT = """<testsuites><testsuite>
  <testcase classname="a" name="good"/>
  <testcase classname="a" name="bad"><failure message="no&#10;at all"/></testcase>
  <testcase classname="a" name="broken"><error message="not even begun"/></testcase>
  <testcase classname="a" name="absent"><skipped message="no cluster"/></testcase>
</testsuite></testsuites>"""


def test_passed_failed_and_skipped_tests_are_counted_apart(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = tally("unit", report, 1)

    assert found.passed == 1
    assert found.failed == ["a::bad: no", "a::broken: not even begun"]
    assert found.skipped == ["a::absent: no cluster"]


def test_a_rerun_test_counts_once_by_its_last_run(tmp_path: Path) -> None:
    again = '<testcase classname="a" name="good"/><testcase classname="a" name="bad"/>'
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("<testsuite>", f"<testsuite>{again}"))
    found = tally("e2e", report, 1)

    assert found.passed == 1
    assert found.rerun == ["a::good"]
    assert found.failed == ["a::bad: no", "a::broken: not even begun"]


def test_an_error_of_pytest_is_a_failure_even_if_no_test_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("failure", "x").replace("error", "x"))

    assert tally("unit", report, 3).failed == ["unit: pytest ran 4 tests and exited with code 3"]


@pytest.mark.parametrize("code", [0, 4])
def test_a_run_without_a_report_is_a_failure(tmp_path: Path, code: int) -> None:
    found = tally("e2e", tmp_path / "missing.xml", code)

    assert found.failed == [f"e2e: pytest ran 0 tests and exited with code {code}"]


@pytest.mark.parametrize("written", ["", "<testsuites><testsuite><testcase"])
def test_a_run_whose_report_was_cut_off_is_a_failure(tmp_path: Path, written: str) -> None:
    """The disk was full, or it was killed."""
    report = tmp_path / "report.xml"
    report.write_text(written)

    assert tally("e2e", report, 3).failed == ["e2e: pytest ran 0 tests and exited with code 3"]


def test_the_summary_names_reruns_and_ends_with_the_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    suites.print_summary(Tally(3, ["a::bad"], ["a::absent: no cluster"], ["a::flaky"]), 90.0)

    assert capsys.readouterr().out.splitlines()[1:] == [
        "skipped: a::absent: no cluster",
        "failed, then passed on rerun: a::flaky",
        "FAILED: a::bad",
        "1.5 minutes in all",
        "3 passed, 1 failed, 1 skipped",
    ]


def test_the_summary_of_a_clean_run_says_so_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    suites.print_summary(Tally(3), 60.0 * suites.MOST_MINUTES)

    assert capsys.readouterr().out.splitlines()[1:] == [
        "40.0 minutes in all",
        "3 passed, 0 failed, 0 skipped",
    ]


def test_a_run_that_takes_too_long_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    suites.print_summary(Tally(3), 60.0 * suites.MOST_MINUTES + 1)

    assert "longer than the 40 minutes" in capsys.readouterr().out


def test_the_cost_of_each_suite_stands_on_the_page() -> None:
    page = (suites.ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `make test-(\w+)` \|.*\| (.*) \|$", page, re.MULTILINE)

    assert [name for name, _ in rows] == [*(name for name in suites.SUITES if name != "upgrade")]
    assert all(re.search(r"\d+ min|\d+ s", cost) for _, cost in rows)
    assert f"at most {suites.MOST_MINUTES} minutes" in page


def test_every_suite_has_its_place_in_one_stage() -> None:
    placed = [name for stage in suites.STAGES for lane in stage for name in lane]

    assert sorted(placed) == sorted(suites.SUITES)


def test_suites_side_by_side_are_all_counted_and_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(suites, "LOGS", tmp_path)
    commands = {name: [sys.executable, "-c", f"print('{name} ran')"] for name in ("a", "b", "c")}
    monkeypatch.setattr(suites, "SUITES", commands)
    monkeypatch.setattr(suites, "STAGES", ((("a", "b"), ("c",)),))

    assert suites.main([]) == 1
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line for line in lines if line.endswith(" ran")] == ["a ran", "b ran", "c ran"]
    assert lines[-1] == "0 passed, 3 failed, 0 skipped", "none wrote a report"


def test_what_an_earlier_run_left_goes_before_the_state_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # An engine that was killed leaves forwarding on; whoever ends it next, switches it off.
    forwarding = ["1"]

    def end_the_engine(*_: object, **__: object) -> list[Any]:
        forwarding[0] = "0"
        return []

    def record(*_: object) -> Record:
        return Record((), (), (), (), (), (), forwarding[0])

    monkeypatch.setattr(suites, "_run_side_by_side", end_the_engine)
    monkeypatch.setattr(suites, "look", lambda: ROOT)
    monkeypatch.setattr(suites, "toolbox", lambda _: None)
    monkeypatch.setattr(suites, "remove_remains", end_the_engine)
    monkeypatch.setattr(leftovers, "record", record)

    suites.main(["e2e"])

    assert "left behind" not in capsys.readouterr().out


@pytest.mark.parametrize("fails", ["remove_remains", "_record"])
def test_all_suites_run_where_nothing_can_be_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: str
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise ClusterError("[another] run uses the cluster")

    ran: list[object] = []
    monkeypatch.setattr(suites, "_run_side_by_side", lambda *_: ran.append(1) or [Tally(1)])
    monkeypatch.setattr(suites, "remove_remains", lambda **_: [])
    monkeypatch.setattr(suites, "look", lambda: ROOT)
    monkeypatch.setattr(suites, "_record", lambda: None)
    monkeypatch.setattr(suites, fails, fail)

    assert suites.main(["e2e"]) == 0

    skipped = "skipped: suites: nothing is left behind on the machine: [another] run uses the"
    assert capsys.readouterr().out.count(skipped) == 2, "at once, and in the summary"
    assert len(ran) == len(suites.STAGES)


def test_a_state_that_can_no_longer_be_read_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ClusterError("iptables-save failed")

    monkeypatch.setattr(suites, "_record", fail)

    (failed,) = suites._compare(Record((), (), (), (), (), (), "0")).failed

    assert failed.endswith("left behind on the machine: iptables-save failed")


def test_a_suite_that_hangs_is_ended_and_counts_as_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suites, "LOGS", tmp_path)
    monkeypatch.setattr(suites, "SUITE_MINUTES", 1 / 60)
    slow = [sys.executable, "-c", SLOW_END, str(tmp_path / "ended")]
    good = [sys.executable, "-c", "print('b ran')"]
    monkeypatch.setattr(suites, "SUITES", {"a": slow, "b": good})
    monkeypatch.setattr(suites, "STAGES", ((("a", "b"),),))

    assert suites.main([]) == 1

    lines = capsys.readouterr().out.splitlines()
    because = "a: was ended because it still ran after 0 minutes"
    assert lines.count(because) == 1, "at once"
    assert lines.count(f"FAILED: {because}") == 1, "and in the summary"
    assert (tmp_path / "ended").exists()
    assert "b ran" in lines, "the others still run"


SLOW_END = """
import pathlib, signal, sys, time
try:
    print("begun", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("cleans up", flush=True)
    pathlib.Path(sys.argv[1]).touch()
    sys.exit(2)
"""
RUNNER = """
import pathlib, signal, sys
from tools import suites
# Ignored where nohup runs these tests.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
suites.LOGS = pathlib.Path(sys.argv[1])
slow = [sys.executable, "-c", sys.argv[2]]
suites.SUITES = {name: [*slow, f"{sys.argv[1]}/{name} ended"] for name in "abc"}
suites.STAGES = ((("a", "b"), ("c",)),)
sys.exit(suites.main([]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_all", [True, False], ids=["as a terminal does", "to it alone"])
def test_suites_end_with_their_clean_up_when_the_runner_is_interrupted(
    tmp_path: Path, number: signal.Signals, *, to_all: bool
) -> None:
    command = [sys.executable, "-c", RUNNER, str(tmp_path), SLOW_END]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as runner:
        eventually(lambda: all(_begun(tmp_path / f"{name}.log") for name in "ac"), "both run", 20)
        (os.killpg if to_all else os.kill)(runner.pid, number)
        if number == signal.SIGHUP:
            # The kernel sends it, and so does the shell.
            os.kill(runner.pid, number)
        lines, _ = runner.communicate(timeout=20)

    assert lines.count("cleans up") == 2
    assert "FAILED: suites: interrupted" in lines
    assert runner.returncode == 1
    assert {path.name for path in tmp_path.glob("* ended")} == {"a ended", "c ended"}


def _begun(log: Path) -> bool:
    return log.exists() and "begun" in log.read_text()
