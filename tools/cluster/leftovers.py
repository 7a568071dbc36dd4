"""Finds and removes what a Docker engine leaves on a machine.

The state before and after is recorded and compared. Only what is new since then and bears a mark
of ours is ever removed: an address that our engine gives, or a path in its folders. Another engine
may have begun meanwhile; what engines share stays as long as that one runs.
Called by the engine when it stops, and by the suites to check that nothing is left.
"""

import contextlib
import json
import os
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

from tools.cluster.debian import Toolbox
from tools.cluster.shell import ClusterError, run

# Of the range reserved for benchmarks, so that no private network can be in the way.
BRIDGE = "198.18.200.1/24"
"""The address of our engine's own bridge."""
NETWORKS = "198.18.208.0/20"
"""The addresses of the networks that our engine makes."""

_GIVEN = (IPv4Interface(BRIDGE).network, IPv4Network(NETWORKS))
_SHARED_BRIDGE = "docker0"
"""An engine that finds this bridge uses it with the address that it has."""
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
_LINKS = re.compile(r"docker0|br-[0-9a-f]{12}|veth[0-9a-f]{7}")
_BRIDGES = re.compile(r"\bdocker0\b|\bbr-[0-9a-f]{12}\b")
_ADDRESSES = re.compile(r"\b\d+\.\d+\.\d+\.\d+(?:/\d+)?\b")
# The policy is set by an engine that switches forwarding on.
_OF_ANY_ENGINE = re.compile(r"DOCKER|filter :FORWARD DROP")


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
    own_links: tuple[str, ...] = ()
    """The bridges whose addresses our engine gives, and what is attached to them."""
    others: tuple[str, ...] = ()
    """The processes of other engines."""

    def save(self, path: Path) -> None:
        """Save the record for a later run, whole or not at all: half of one would end each run."""
        written = path.with_suffix(".new")
        written.write_text(json.dumps(asdict(self)))
        written.replace(path)

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
        mounts=tuple(mount_points(Path("/proc/self/mountinfo").read_text(), *folders)),
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
        own_links=tuple(own_links(run([tools.tool("ip"), "-json", "address"], env=tools.env))),
        others=tuple(other_engines(marks)),
    )


def own_links(addresses: str) -> list[str]:
    """Read from `ip -json address` which links have an address of ours or are attached to one."""
    links: list[dict[str, Any]] = [each for each in json.loads(addresses) if each]
    bridges = {
        link["ifname"]
        for link in links
        if any(_given(told.get("local", "")) for told in link.get("addr_info", ()))
    }
    attached = {link["ifname"] for link in links if link.get("master") in bridges}
    return sorted(name for name in bridges | attached if _LINKS.fullmatch(name))


def mount_points(mountinfo: str, *folders: Path) -> list[str]:
    """Return the mount points in the folders; /proc/self/mountinfo escapes spaces and others."""
    tops = [folder.resolve() for folder in folders]
    escaped = [line.split(" ")[4] for line in mountinfo.splitlines()]
    points = [
        re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), each) for each in escaped
    ]
    return [point for point in points if any(Path(point).is_relative_to(top) for top in tops)]


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
    return sorted(
        f"{number} {line}"
        for number, line in _command_lines()
        if any(mark in line for mark in marks)
    )


def other_engines(marks: list[str]) -> list[str]:
    """List the engines, as "PID command line", whose command line holds none of the marks."""
    return sorted(
        f"{number} {line}"
        for number, line in _command_lines()
        if Path(line.split(" ", 1)[0]).name == "dockerd" and not any(mark in line for mark in marks)
    )


def _command_lines() -> Iterator[tuple[str, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                yield folder.name, " ".join(words).strip()


def compare(before: Record, after: Record) -> list[str]:
    """Return what is ours and new since the earlier record, one line each."""
    lines = []
    for field in ("links", "rules", "mounts", "cgroups", "paths", "processes"):
        lines += [f"{field}: {entry}" for entry in _added(field, before, after)]
    if before.forwarding != after.forwarding and not after.others:
        lines.append(f"ip_forward: {after.forwarding}, was {before.forwarding}")
    return lines


def _added(field: str, before: Record, after: Record) -> list[str]:
    """Return the entries of a field that are new and ours."""
    old = set(getattr(before, field))
    new = [entry for entry in getattr(after, field) if entry not in old]
    if field in ("links", "rules") and any(NETWORKS in other for other in after.others):
        # An engine of ours for another cache gives the same addresses.
        return []
    if field == "rules":
        return _our_rules(new, after)
    if field == "links":
        shared = {_SHARED_BRIDGE} if after.others else set[str]()
        return [link for link in new if link in after.own_links and link not in shared]
    if field in ("cgroups", "paths") and after.others:
        return []
    return new


def _our_rules(new: list[str], after: Record) -> list[str]:
    """Return the rules for bridges and addresses of ours, and the chains that nobody else needs."""
    named = {rule: set(_BRIDGES.findall(rule)) for rule in after.rules}
    given = {rule for rule in after.rules if any(map(_given, _ADDRESSES.findall(rule)))}
    # A bridge may be gone already, but the rule for its addresses names it.
    bridges = set(after.own_links).union(*(named[rule] for rule in given))
    shared = bool(after.others) or any(names - bridges for names in named.values())
    if after.others:
        bridges -= {_SHARED_BRIDGE}
    return [
        rule
        for rule in new
        if (named[rule] <= bridges if named[rule] else rule in given)
        or (_OF_ANY_ENGINE.search(rule) and not named[rule] and not shared)
    ]


def _given(address: str) -> bool:
    """Whether our engine gives an IPv4 address, or all those of a range."""
    try:
        network = IPv4Network(address, strict=False)
    except ValueError:
        return False
    return any(network.subnet_of(each) for each in _GIVEN)


def undo_rules(before: Record, after: Record) -> list[list[str]]:
    """Return the iptables arguments that remove the engine's rules and chains."""
    undo: list[list[str]] = []
    chains: list[list[str]] = []
    for line in _added("rules", before, after):
        table, rule = line.split(" ", 1)
        if rule.startswith("-A "):
            undo.append(["-t", table, "-D", *shlex.split(rule)[1:]])
        elif rule == ":FORWARD DROP":
            chains.append(["-t", table, "-P", "FORWARD", "ACCEPT"])
        else:
            chains.append(["-t", table, "-X", rule[1:].split()[0]])
    return undo + chains


def clean_up(before: Record, tools: Toolbox, *folders: Path) -> list[str]:
    """Remove what the engine left; return what could not be removed."""
    after = record(tools, *folders)
    for point in reversed(_added("mounts", before, after)):
        _try("umount", "--lazy", point)
    for arguments in undo_rules(before, after):
        _try(tools.tool("iptables"), "-w", *arguments, env=tools.env)
    for link in _added("links", before, after):
        _try(tools.tool("ip"), "link", "delete", link, env=tools.env)
    for cgroup in _added("cgroups", before, after):
        _remove_folders(Path(cgroup))
    for path in _added("paths", before, after):
        (Path(path) / "key.json").unlink(missing_ok=True)
        _remove_folders(Path(path))
    if not after.others:
        _restore(before, after)
    # A rule that could not be removed may name a link that was.
    return compare(before, replace(record(tools, *folders), own_links=after.own_links))


def _restore(before: Record, after: Record) -> None:
    if before.forwarding != after.forwarding:
        _FORWARD.write_text(before.forwarding)
    for sysctl in set(before.sysctls) - set(after.sysctls):
        name, value = sysctl.split("=")
        with contextlib.suppress(OSError):
            (_SYS / name).write_text(value)


def _try(*command: str | Path, env: dict[str, str] | None = None) -> None:
    # The comparison that follows reports what could not be removed.
    with contextlib.suppress(ClusterError):
        run(command, env=env)


def _remove_folders(top: Path) -> None:
    """Remove a tree of empty folders (a cgroup's own files do not count)."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
