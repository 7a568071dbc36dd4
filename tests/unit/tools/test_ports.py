"""Ports are given to one process each, however many ask side by side."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import ports

PROCESSES, EACH = 8, 400


def test_no_port_is_given_to_two_processes() -> None:
    code = f"from tools.ports import free_port; print(*(free_port() for _ in range({EACH})))"
    asking = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    given = [port for each in asking for port in each.communicate()[0].split()]

    assert len(set(given)) == len(given) == PROCESSES * EACH


@pytest.mark.parametrize("written", ["", "\0\0\0\0\0", "1x"], ids=["empty", "zeros", "no number"])
def test_what_a_crash_left_in_the_file_is_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str
) -> None:
    latest = tmp_path / "latest"
    latest.write_text(written)
    monkeypatch.setattr(ports, "_LATEST", latest)

    port = ports.free_port()

    assert latest.read_text() == str(port)
