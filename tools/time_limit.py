"""Skips by their names the tests for which a run has no time left; a plugin of pytest.

TESTS_END says when, in seconds since 1970: `.ci/run` sets it, as CI ends a run that takes longer
without a word about what had passed. A machine that is that slow cannot run all tests in the time
that it is given, and says which.
"""

import os
import time

import pytest

VARIABLE = "TESTS_END"


def seconds_left() -> float:
    """Return how long tests may still begin; infinity without a limit."""
    end = os.environ.get(VARIABLE)
    return float(end) - time.time() if end else float("inf")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip a test that would begin too late, before its fixtures do anything."""
    if seconds_left() <= 0:
        pytest.skip("no time was left on this machine")
