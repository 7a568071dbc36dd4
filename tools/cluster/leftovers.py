"""Finds and removes what a Docker engine leaves on a machine.

The state before and after is recorded and compared; only what is new since then is ever removed.
Called by the engine when it stops, and by the suites to check that nothing is left.
"""

import contextlib
import json
import os
import re
import shlex
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.cluster.debian import Toolbox
from tools.cluster.shell import ClusterError, run

_PATHS = (
    "/etc/docker",
    "/lib/modules",
    "/var/lib/docker",
    "/run/docker",
    "/run/containerd",
    "/opt/containerd",
)
_CGROUPS = ("docker", "kubelet", "kubelet.slice", "system.slice/docker*")
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
# What a kubelet sets on the machine of its node.
_SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
_SYS = Path("/proc/sys")
_COUNTERS = re.compile(r" ?\[[0-9:]+\]")
_OUR_LINKS = re.compile(r"docker0|br-[0-9a-f]{12}|veth[0-9a-f]{7}")
_OURS = re.compile(r"DOCKER|docker0|\bbr-[0-9a-f]{12}\b")


@dataclass(frozen=True, slots=True)
class Record:
    """The state of the machine that an engine may change."""

    links: tuple[str, ...]
    rules: tuple[str, ...]
    """Lines of iptables-save, each with its table in front."""
    mounts: tuple[str, ...]
    cgroups: tuple[str, ...]
    paths: tuple[str, ...]
    processes: tuple[str, ...]
    forwarding: str
    sysctls: tuple[str, ...] = ()
    """Each as name=value; restored, but not compared: kubelets of another engine set them too."""

    def save(self, path: Path) -> None:
        """Save the record for a later run."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Load a saved record."""
        fields: dict[str, Any] = json.loads(path.read_text())
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return cls(**{**fields, **lists})


def record(tools: Toolbox, *folders: Path) -> Record:
    """Record the state; of processes and mounts only those that name one of the folders."""
    marks = [str(folder) for folder in folders]
    cgroup_root = Path("/sys/fs/cgroup")
    return Record(
        links=tuple(sorted(name for _, name in socket.if_nameindex())),
        rules=tuple(rules_of(run([tools.tool("iptables-save")], env=tools.env))),
        mounts=tuple(
            point
            for point in mount_points(Path("/proc/self/mountinfo").read_text())
            if any(mark in point for mark in marks) or "/docker/" in point
        ),
        cgroups=tuple(
            sorted(
                str(path)
                for name in _CGROUPS
                for pattern in (name, f"*/{name}")
                for path in cgroup_root.glob(pattern)
            )
        ),
        paths=tuple(path for path in _PATHS if Path(path).exists()),
        processes=tuple(processes(marks)),
        forwarding=_FORWARD.read_text().strip(),
        sysctls=tuple(
            f"{name}={(_SYS / name).read_text().strip()}"
            for name in _SYSCTLS
            if (_SYS / name).exists()
        ),
    )


def mount_points(mountinfo: str) -> list[str]:
    """Return the mount points that /proc/self/mountinfo lists; it escapes spaces and others."""
    points = [line.split(" ")[4] for line in mountinfo.splitlines()]
    return [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), each) for each in points]


def rules_of(saved: str) -> list[str]:
    """Turn the output of iptables-save into lines that name their table; counters are dropped."""
    table, lines = "", []
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith((":", "-")):
            lines.append(f"{table} {_COUNTERS.sub('', line)}")
    return lines


def processes(marks: list[str]) -> list[str]:
    """List processes, as "PID command line", whose command line holds one of the marks."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                line = " ".join(words).strip()
                if any(mark in line for mark in marks):
                    found.append(f"{folder.name} {line}")
    return sorted(found)


def compare(before: Record, after: Record) -> list[str]:
    """Return what is new since the earlier record, one line each."""
    lines = []
    for field in ("links", "rules", "mounts", "cgroups", "paths", "processes"):
        old = set(getattr(before, field))
        # Empty built-in chains appear as soon as anything reads or writes the table.
        new = [x for x in getattr(after, field) if x not in old and not _idle_chain(x)]
        lines += [f"{field}: {entry}" for entry in new]
    if before.forwarding != after.forwarding:
        lines.append(f"ip_forward: {after.forwarding}, was {before.forwarding}")
    return lines


def undo_rules(before: Record, after: Record) -> list[list[str]]:
    """Return the iptables arguments that remove the engine's rules and chains."""
    old = set(before.rules)
    added = [line for line in after.rules if line not in old and _OURS.search(line)]
    undo: list[list[str]] = []
    chains: list[list[str]] = []
    for line in added:
        table, rule = line.split(" ", 1)
        if rule.startswith("-A "):
            undo.append(["-t", table, "-D", *shlex.split(rule)[1:]])
        elif rule.startswith(":"):
            chains.append(["-t", table, "-X", rule[1:].split()[0]])
    # The engine sets this policy if it switched forwarding on.
    if "filter :FORWARD DROP" in after.rules and "filter :FORWARD DROP" not in old:
        undo.append(["-t", "filter", "-P", "FORWARD", "ACCEPT"])
    return undo + chains


def clean_up(before: Record, tools: Toolbox, *folders: Path) -> list[str]:
    """Remove what the engine left; return what could not be removed."""
    after = record(tools, *folders)
    for point in reversed([mount for mount in after.mounts if mount not in before.mounts]):
        _try("umount", "--lazy", point)
    for arguments in undo_rules(before, after):
        _try(tools.tool("iptables"), "-w", *arguments, env=tools.env)
    for link in set(after.links) - set(before.links):
        if _OUR_LINKS.fullmatch(link):
            _try(tools.tool("ip"), "link", "delete", link, env=tools.env)
    for cgroup in set(after.cgroups) - set(before.cgroups):
        _remove_folders(Path(cgroup))
    for path in set(after.paths) - set(before.paths):
        (Path(path) / "key.json").unlink(missing_ok=True)
        _remove_folders(Path(path))
    if before.forwarding != after.forwarding:
        _FORWARD.write_text(before.forwarding)
    for sysctl in set(before.sysctls) - set(after.sysctls):
        name, value = sysctl.split("=")
        with contextlib.suppress(OSError):
            (_SYS / name).write_text(value)
    return compare(before, record(tools, *folders))


def _idle_chain(line: str) -> bool:
    return re.fullmatch(r"\w+ :[A-Z]+ ACCEPT", line) is not None


def _try(*command: str | Path, env: dict[str, str] | None = None) -> None:
    # The comparison that follows reports what could not be removed.
    with contextlib.suppress(ClusterError):
        run(command, env=env)


def _remove_folders(top: Path) -> None:
    """Remove a tree of empty folders (a cgroup's own files do not count)."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
