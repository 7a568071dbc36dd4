"""What a process costs, by the kernel: on a busy machine this holds where times do not."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A running process."""

    pid: int

    def cpu(self) -> float:
        """Return the CPU seconds (user and system) it has used, all its threads together."""
        # The name of a process, in parentheses, may contain blanks.
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_memory(self) -> float:
        """Return the peak of its resident memory (MB) since `forget_peak`."""
        found = re.search(r"^VmHWM:\s+(\d+) kB$", self._read("status"), re.MULTILINE)
        return int(found[1]) / 1000 if found else 0.0

    def forget_peak(self) -> None:
        """Let the peak begin at what is resident now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _read(self, name: str) -> str:
        return Path(f"/proc/{self.pid}/{name}").read_text()
