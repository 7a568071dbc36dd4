"""Colours of the command line in a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10[0-7])(?:;\d+)*m")


def in_a_terminal(**variables: str) -> str:
    """Return what tftj prints of a file that does not exist, as a terminal gets it."""
    screen, terminal = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tftraining.cli", "convert", "missing.yaml"],
            env={"PYTHONPATH": str(ROOT / "operator"), "TERM": "xterm-256color", **variables},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            check=False,
        )
        assert done.returncode == 2
        return os.read(screen, 65536).decode()
    finally:
        os.close(terminal)
        os.close(screen)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_has_colours_unless_they_are_switched_off(
    variables: dict[str, str], *, coloured: bool
) -> None:
    shown = in_a_terminal(**variables)
    assert "cannot read missing.yaml: No such file" in shown
    assert bool(_COLOUR.search(shown)) is coloured
