"""Whether anything is connected to a port, as the kernel knows it; used by server.

What a name server no longer knows may still be there: the names of a job go with its Service.
"""

from pathlib import Path

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_ESTABLISHED = "01"


def is_in_use(port: int) -> bool:
    """Tell whether a connection to the port is open; True where the kernel does not say."""
    try:
        rows = [row.split() for table in _TABLES if table.exists() for row in _rows(table)]
    except OSError:
        return True
    # Number, local address, remote address, state: "0: 0100007F:1F90 0100007F:C35A 01 …".
    return not rows or any(
        int(local.rpartition(":")[2], 16) == port and state == _ESTABLISHED
        for _, local, _, state, *_ in rows
    )


def _rows(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:]
