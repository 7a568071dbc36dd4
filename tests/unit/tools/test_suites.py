"""The runner of the suites counts results by pytest's report and hides no failure."""

from pathlib import Path

import pytest

from tools import suites
from tools.suites import Tally, tally

REPORT = """<testsuites><testsuite>
  <testcase classname="a" name="good"/>
  <testcase classname="a" name="bad"><failure message="no"/></testcase>
  <testcase classname="a" name="broken"><error message="no"/></testcase>
  <testcase classname="a" name="absent"><skipped message="no cluster"/></testcase>
</testsuite></testsuites>"""


def test_passed_failed_and_skipped_tests_are_counted_apart(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = tally("unit", report, 1)

    assert found.passed == 1
    assert found.failed == ["a::bad", "a::broken"]
    assert found.skipped == ["a::absent: no cluster"]


def test_a_rerun_test_counts_once_by_its_last_run(tmp_path: Path) -> None:
    again = '<testcase classname="a" name="good"/><testcase classname="a" name="bad"/>'
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("<testsuite>", f"<testsuite>{again}"))
    found = tally("e2e", report, 1)

    assert found.passed == 1
    assert found.rerun == ["a::good"]
    assert found.failed == ["a::bad", "a::broken"]


def test_an_error_of_pytest_is_a_failure_even_if_no_test_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("failure", "x").replace("error", "x"))

    assert tally("unit", report, 3).failed == ["unit: pytest exited with code 3"]


def test_a_run_without_a_report_is_a_failure(tmp_path: Path) -> None:
    assert tally("e2e", tmp_path / "missing.xml", 4).failed == ["e2e: pytest exited with code 4"]


def test_the_summary_names_reruns_and_ends_with_the_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    suites.print_summary(Tally(3, ["a::bad"], ["a::absent: no cluster"], ["a::flaky"]))

    assert capsys.readouterr().out.splitlines()[1:] == [
        "skipped: a::absent: no cluster",
        "failed, then passed on rerun: a::flaky",
        "FAILED: a::bad",
        "3 passed, 1 failed, 1 skipped",
    ]


def test_the_summary_of_a_clean_run_says_so_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    suites.print_summary(Tally(3))

    assert capsys.readouterr().out.splitlines()[1:] == ["3 passed, 0 failed, 0 skipped"]
