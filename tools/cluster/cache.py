"""What is costly to make and worth keeping: folders named by the digest of what they come from.

A folder is made beside its place and renamed into it, so a killed run leaves no half of one; a
lock file makes a second run wait for the first instead of making the same thing again.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

NO_SOURCES = ("__pycache__", ".*")
"""Names of what tools leave beside sources (.ruff_cache and so on); it goes into no image."""

_SHORT = 16


def cache_dir() -> Path:
    """Name the folder that outlives runs: TFTRAINING_CACHE, else one in the XDG cache."""
    named = os.environ.get("TFTRAINING_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tftraining"


def digest(*parts: str | bytes | Path) -> str:
    """Digest texts, bytes, files and whole folders, in the order given."""
    total = hashlib.sha256()
    for part in parts:
        one = hashlib.sha256()
        for chunk in _chunks(part):
            one.update(chunk)
        # Digesting the parts apart keeps ("ab", "c") and ("a", "bc") apart.
        total.update(one.digest())
    return total.hexdigest()[:_SHORT]


def _chunks(part: str | bytes | Path) -> Iterator[bytes]:
    if isinstance(part, str):
        yield part.encode()
    elif isinstance(part, bytes):
        yield part
    elif part.is_dir():
        for path in sorted(part.rglob("*")):
            inside = path.relative_to(part)
            if path.is_file() and not _left_by_tools(inside):
                yield f"\0{inside}\0{path.stat().st_mode & 0o111:o}\0".encode()
                yield path.read_bytes()
    else:
        yield part.read_bytes()


def _left_by_tools(path: Path) -> bool:
    return any(fnmatch(name, pattern) for name in path.parts for pattern in NO_SOURCES)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; the kernel lets go of it when this process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Lend an empty folder, to be asked for under a lock; what a killed run left in it goes."""
    folder = cache_dir() / "scratch" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kept(kind: str, name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of this kind, name and key; `make` fills it when it is not there yet."""
    parent = cache_dir() / kind
    place = parent / f"{name}-{key}"
    if place.is_dir():
        return place
    with locked(cache_dir() / "locks" / f"{kind}-{name}"):
        if place.is_dir():
            return place
        parent.mkdir(parents=True, exist_ok=True)
        with scratch(f"{kind}-{name}") as making:
            make(making)
            making.rename(place)
    return place
