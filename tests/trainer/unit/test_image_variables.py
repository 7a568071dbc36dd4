"""What the image sets before a process starts does what it is set for."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.training.processes import image_variables

_ASKED_FOR = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PROGRAM = """
stays = b"x" * (48 << 20)
print(sum(int(l.split()[1]) for l in open("/proc/self/smaps") if l.startswith("AnonHugePages")))
"""


@pytest.mark.skipif(
    not _ASKED_FOR.exists() or "[madvise]" not in _ASKED_FOR.read_text(),
    reason="huge pages are not had for the asking on this machine",
)
def test_large_memory_is_in_huge_pages() -> None:
    def kilobytes(variables: dict[str, str]) -> int:
        command = [sys.executable, "-c", _PROGRAM]
        return int(subprocess.run(command, env=variables, capture_output=True, check=True).stdout)

    assert kilobytes({}) == 0
    assert kilobytes(image_variables()) > 40_000
