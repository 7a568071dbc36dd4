"""Ports are given to one process each, however many ask side by side."""

import subprocess
import sys

from tests.conftest import ROOT

PROCESSES, EACH = 8, 400


def test_no_port_is_given_to_two_processes() -> None:
    code = f"from tools.ports import free_port; print(*(free_port() for _ in range({EACH})))"
    asking = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    given = [port for each in asking for port in each.communicate()[0].split()]

    assert len(set(given)) == len(given) == PROCESSES * EACH
