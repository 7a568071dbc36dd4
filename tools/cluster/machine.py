"""Detects what this machine supports, so that workarounds are applied only where needed."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

_CAP_NET_ADMIN, _CAP_SYS_ADMIN, _CAP_SYS_RESOURCE = 12, 21, 24
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties that decide how a cluster can be started here."""

    root: bool
    debian: str
    """The Debian release's code name; empty elsewhere."""
    cgroup_v1: bool
    sys_resource: bool
    """Whether this process has CAP_SYS_RESOURCE, which engines expect."""
    architecture: str
    privileged: bool = True
    """Whether this process may set up mounts and networks, which a container may not."""

    @property
    def why_no_engine(self) -> str:
        """The reason why no engine can be started here, in one line; empty if one can."""
        lacking = [
            word
            for word, there in (
                ("root", self.root),
                ("Debian with apt", bool(self.debian)),
                ("CAP_SYS_ADMIN and CAP_NET_ADMIN", self.privileged),
            )
            if not there
        ]
        if not lacking:
            return ""
        return (
            f"no Docker engine answers, and starting one requires {' and '.join(lacking)}: "
            "install and start Docker, or set KUBECONFIG to your own cluster; "
            "`tftj run --local FILE` runs a job without a cluster"
        )


def look() -> Machine:
    """Detect the properties of the machine that this process runs on."""
    status = _text("/proc/self/status")
    return Machine(
        root=os.geteuid() == 0,
        debian=debian_release(_text("/etc/os-release")),
        cgroup_v1=not Path("/sys/fs/cgroup/cgroup.controllers").exists(),
        sys_resource=has_capability(status, _CAP_SYS_RESOURCE),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        privileged=all(has_capability(status, each) for each in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN)),
    )


def debian_release(os_release: str) -> str:
    """Read Debian's code name from os-release, "" for derivatives: their packages differ."""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release, re.MULTILINE))
    return fields.get("VERSION_CODENAME", "") if fields.get("ID") == "debian" else ""


def has_capability(status: str, number: int) -> bool:
    """Whether the bounding set in /proc/PID/status holds a capability."""
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is None or bool(int(found[1], 16) >> number & 1)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
