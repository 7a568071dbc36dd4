"""A program that takes too long is asked to end, and then made to; all of its output is read."""

import subprocess
import sys
import time

import pytest

from tools import suite_program
from tools.suite_program import Limit, output

OBEYS = """
import time
print("begun", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("cleans up", flush=True)
"""
IGNORES = """
import signal, time
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda number, _: print(signal.Signals(number).name, flush=True))
print("begun", flush=True)
while True:
    time.sleep(60)
"""
LEAVES_A_CHILD = f"""
import subprocess, sys
subprocess.Popen(["sleep", "5"], start_new_session=True)
exec({IGNORES!r})
"""


def read(code: str, seconds: float) -> tuple[list[str], list[str]]:
    """Return the lines of a program, and what is said about it."""
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as program:
        text = b"".join(output(program, Limit(seconds, lambda: said.append("too long"))))
    return text.decode().splitlines(), said


def test_a_program_in_time_is_left_alone() -> None:
    code = "import sys; sys.stdout.write('one\\ntwo\\nthree')"

    assert read(code, 30) == (["one", "two", "three"], [])


def test_a_program_that_takes_too_long_may_clean_up() -> None:
    assert read(OBEYS, 1) == (["begun", "cleans up"], ["too long"])


@pytest.mark.parametrize("code", [IGNORES, LEAVES_A_CHILD], ids=["alone", "with a child"])
def test_a_program_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(suite_program, "GRACE_SECONDS", 0.3)
    began = time.monotonic()

    assert read(code, 1) == (["begun", "SIGINT", "SIGTERM"], ["too long"])
    assert time.monotonic() - began < 4, "nor is its child waited for, which has its output"
