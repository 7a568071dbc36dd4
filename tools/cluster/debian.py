"""Gets programs and root filesystems from Debian's packages without installing anything.

Installing would start services (as the engine's package does) and change the machine; extracting
the missing packages into the cache does neither.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.cache import digest, kept
from tools.cluster.machine import look
from tools.cluster.shell import ClusterError, Say, run

RELEASE = "bookworm"
"""The release of the root filesystems: its systemd still runs on cgroup v1, its Python is 3.11."""

_TOOLS = ("docker.io", "containerd", "runc", "tini", "iptables", "iproute2", "mmdebstrap", "zstd")
# The client is a package of its own since Debian 13, which docker.io only recommends.
_CLIENT = ("docker-cli",)
_CLIENT_IN_ENGINE = ("bullseye", "bookworm")
_FOLDERS = ("usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_SOURCE_FILES = ("sources.list", "sources.list.d/debian.sources")
_INSTALLED = Path("/var/lib/dpkg/status")
_APT = ("apt-get", "-o", "APT::Sandbox::User=root")
# Instead of usrmerge, which needs 50 MB of Perl; for this the folders are merged from the first.
_MERGED = "usr-is-merged"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Programs extracted from packages, and the environment that they need."""

    root: Path

    @property
    def env(self) -> dict[str, str]:
        """Variables with the toolbox's folders before the machine's."""
        libraries = sorted(self.root.glob("usr/lib/*-linux-gnu"))
        libraries += sorted(self.root.glob("lib/*-linux-gnu"))
        plugins = sorted(self.root.glob("usr/lib/*-linux-gnu/xtables"))
        perl = sorted(self.root.glob("usr/share/perl/*")) + sorted(
            self.root.glob("usr/lib/*-linux-gnu/perl*/*")
        )
        folders = [str(self.root / folder) for folder in _FOLDERS]
        env = {"PATH": os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])}
        for name, paths in (
            ("LD_LIBRARY_PATH", libraries),
            ("XTABLES_LIBDIR", plugins),
            ("PERL5LIB", perl),
        ):
            if paths:
                env[name] = os.pathsep.join(map(str, paths))
        return env

    def tool(self, name: str) -> Path:
        """Return a program's path, in the toolbox or on the machine. Raises ClusterError."""
        for folder in self.env["PATH"].split(os.pathsep):
            path = Path(folder) / name
            if path.exists():
                return path
        raise ClusterError(f"neither the toolbox nor this machine has {name}")


def toolbox(say: Say) -> Toolbox:
    """Return the toolbox of an engine; the first call extracts the packages."""
    client = () if look().debian in _CLIENT_IN_ENGINE else _CLIENT
    return extracted("toolbox", (*_TOOLS, *client), say)


def extracted(name: str, packages: tuple[str, ...], say: Say) -> Toolbox:
    """Return packages with those that they need, as far as this machine lacks them; cached."""
    versions = _lacking(packages)

    def fill(place: Path) -> None:
        # Of nothing, apt-get takes a download for an error.
        if not versions:
            return
        say(f"extracting {len(versions)} Debian packages")
        debs = place / "debs"
        debs.mkdir()
        try:
            run([*_APT, "download", *versions], cwd=debs)
        except ClusterError:
            # The machine's package lists are outdated.
            run([*_APT, "update"])
            run([*_APT, "download", *(word.partition("=")[0] for word in versions)], cwd=debs)
        for deb in sorted(debs.glob("*.deb")):
            run(["dpkg", "-x", deb, place])
            deb.unlink()
        debs.rmdir()
        _link_iptables(place)

    return Toolbox(kept("debian", name, digest(*sorted(versions)), fill))


def root_filesystem(name: str, packages: tuple[str, ...], say: Say) -> Path:
    """Return a tar of a minimal Debian with these packages, cached."""
    key = digest(RELEASE, *packages, *_SKIPPED)

    def fill(place: Path) -> None:
        say(f"building a Debian root filesystem for {name} (half a minute)")
        tools = toolbox(say)
        program = tools.tool("mmdebstrap")
        hooks = program.parents[1] / "share/mmdebstrap/hooks"
        run(
            [
                program,
                "--variant=minbase",
                *([f"--hook-dir={hooks}/merged-usr"] if _MERGED in packages else []),
                *(f"--dpkgopt=path-exclude={path}" for path in _SKIPPED),
                f"--include={','.join(packages)}",
                RELEASE,
                place / "root.tar",
                *_sources(),
            ],
            env=tools.env,
        )

    return kept("debian", name, key, fill) / "root.tar"


_SKIPPED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")


def _lacking(packages: tuple[str, ...]) -> list[str]:
    """Return the packages, as name=version, that apt would have to install here."""

    def ask(place: Path) -> None:
        simulate = [*_APT, "install", "--simulate", "--no-install-recommends", *packages]
        try:
            plan = run(simulate)
        except ClusterError:
            run([*_APT, "update"])
            plan = run(simulate)
        found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", plan, re.MULTILINE)
        (place / "packages").write_text("\n".join(sorted("=".join(pair) for pair in found)))

    # apt takes seconds, and its answer changes only with the installed packages.
    key = digest(_INSTALLED.read_bytes(), *packages)
    return (kept("debian", "lacking", key, ask) / "packages").read_text().split()


def _link_iptables(place: Path) -> None:
    """Create the links that the package's install script would create."""
    folder = place / "usr/sbin"
    if not (folder / "xtables-nft-multi").exists():
        return
    for family in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            (folder / f"{family}{suffix}").symlink_to("xtables-nft-multi")


def _sources() -> list[str]:
    """Return this machine's package sources if it runs the same release."""
    etc = Path("/etc/apt")
    files = [etc / name for name in _SOURCE_FILES if (etc / name).is_file()]
    fitting = [str(path) for path in files if RELEASE in path.read_text()]
    return fitting[:1]
