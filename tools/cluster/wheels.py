"""Downloads the wheels of a lock file on this machine, so that image builds need no network.

A build container may have no network, and does not trust this machine's own certificate
authorities. The wheels fit the image's Python, whichever Python runs this.
"""

import sys
from pathlib import Path

from tools.cluster.cache import digest, kept
from tools.cluster.machine import look
from tools.cluster.shell import Say, run

PYTHON = "3.11"

_PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
# Of the C library in the images, Debian bookworm's.
_NEWEST_GLIBC = 36
_OLDEST_GLIBC = 17


def wheelhouse(lock: Path, say: Say) -> Path:
    """Return a folder with the wheels that a lock file names."""
    target = [
        *("--python-version", PYTHON, "--implementation", "cp"),
        *(word for name in platforms(look().architecture) for word in ("--platform", name)),
    ]

    def fill(place: Path) -> None:
        say(f"downloading the packages of {lock.name}")
        # The lock is complete; resolving dependencies would add what it left out on purpose.
        options = ["--no-deps", "--only-binary=:all:", "--quiet", *target]
        run([*_pip(say), "download", *options, "--requirement", lock, "--dest", place])

    return kept("wheels", lock.stem, digest(lock, *target), fill)


def platforms(architecture: str) -> list[str]:
    """Return the platform tags of wheels that run in the images, the best first."""
    processor = _PROCESSORS.get(architecture, architecture)
    tags = [
        f"manylinux_2_{minor}_{processor}" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)
    ]
    older = ("manylinux2014", "manylinux2010", "manylinux1", "linux")
    return [*tags, *(f"{name}_{processor}" for name in older)]


def _pip(say: Say) -> list[str | Path]:
    """Return the command of a separate pip: an environment created by uv has none."""

    def fill(place: Path) -> None:
        say("creating an environment with pip")
        run([sys.executable, "-m", "venv", place])

    made = kept("python", "pip", digest(sys.version, sys.base_prefix), fill)
    return [made / "bin/python", "-m", "pip"]
