"""Caches what takes long to build, in folders named by the digest of their inputs.

A folder is built elsewhere and renamed into place, so a killed run leaves no incomplete one; a
lock file makes a concurrent run wait for the first instead of building the same again.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path

IGNORED = ("__pycache__", ".*")
"""Name patterns of files that are no sources (.ruff_cache and so on) and go into no image."""

_SHORT = 16


def cache_dir() -> Path:
    """Return the cache's folder: TFTRAINING_CACHE, or one in the XDG cache."""
    named = os.environ.get("TFTRAINING_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tftraining"


def digest(*parts: str | bytes | Path) -> str:
    """Return the digest of texts, bytes, files and whole folders, in the order given."""
    total = hashlib.sha256()
    for part in parts:
        one = hashlib.sha256()
        for chunk in _chunks(part):
            one.update(chunk)
        # One digest per part, so that ("ab", "c") and ("a", "bc") differ.
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
            if path.is_file() and not _ignored(inside):
                yield f"\0{inside}\0{path.stat().st_mode & 0o111:o}\0".encode()
                yield path.read_bytes()
    else:
        yield part.read_bytes()


def _ignored(path: Path) -> bool:
    return any(fnmatch(name, pattern) for name in path.parts for pattern in IGNORED)


@contextmanager
def locked(
    path: Path, waits: Callable[[], None] = lambda: None, *, shared: bool = False
) -> Iterator[None]:
    """Hold a lock file; the kernel releases it when this process ends, however it ends.

    Those who share it hold it at the same time, all others alone. `waits` is called if it cannot
    be had at once.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, kind)
        yield


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Provide an empty folder for the time of the block; the caller holds a lock for the name."""
    folder = cache_dir() / "scratch" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def place(kind: str, name: str, key: str) -> Path:
    """Return where the folder of this kind, name and key is, if it exists."""
    return cache_dir() / kind / f"{name}-{key}"


def kept(kind: str, name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of this kind, name and key; `make` fills it if it does not exist."""
    return kept_all(kind, {name: key}, lambda folders: make(folders[name]))[name]


def kept_all(
    kind: str, keys: Mapping[str, str], make: Callable[[dict[str, Path]], None]
) -> dict[str, Path]:
    """Return the folders of this kind by name; `make` fills those that do not exist, together."""
    places = {name: place(kind, name, key) for name, key in keys.items()}
    if all(folder.is_dir() for folder in places.values()):
        return places
    with ExitStack() as stack:
        # Sorted, so that two runs never wait for each other.
        for name in sorted(places):
            stack.enter_context(locked(cache_dir() / "locks" / f"{kind}-{name}"))
        missing = [name for name, folder in places.items() if not folder.is_dir()]
        if missing:
            (cache_dir() / kind).mkdir(parents=True, exist_ok=True)
            making = {name: stack.enter_context(scratch(f"{kind}-{name}")) for name in missing}
            make(making)
            for name, folder in making.items():
                folder.rename(places[name])
    return places
