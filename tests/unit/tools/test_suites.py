"""The runner of the suites counts what pytest wrote, and never makes a failure disappear."""

from pathlib import Path

from tools.suites import tally

REPORT = """<testsuites><testsuite>
  <testcase classname="a" name="good"/>
  <testcase classname="a" name="bad"><failure message="no"/></testcase>
  <testcase classname="a" name="broken"><error message="no"/></testcase>
  <testcase classname="a" name="absent"><skipped message="no cluster"/></testcase>
</testsuite></testsuites>"""


def test_passed_failed_and_skipped_are_told_apart(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = tally("unit", report, 1)

    assert found.passed == 1
    assert found.failed == ["a::bad", "a::broken"]
    assert found.skipped == ["a::absent: no cluster"]


def test_a_test_that_is_told_again_counts_once_by_its_last_time(tmp_path: Path) -> None:
    again = '<testcase classname="a" name="good"/><testcase classname="a" name="bad"/>'
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("<testsuite>", f"<testsuite>{again}"))
    found = tally("e2e", report, 1)

    assert found.passed == 1
    assert found.told_twice == ["a::good"]
    assert found.failed == ["a::bad", "a::broken"]


def test_a_runner_that_ended_badly_is_a_failure_though_no_test_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("failure", "x").replace("error", "x"))

    assert tally("unit", report, 3).failed == ["unit: the test runner ended with 3"]


def test_a_runner_that_wrote_nothing_is_a_failure(tmp_path: Path) -> None:
    assert tally("e2e", tmp_path / "missing.xml", 4).failed == ["e2e: the test runner ended with 4"]
