"""Assembles the root filesystem of a node: Debian, kind's node files and our programs."""

import shutil
import stat
from pathlib import Path

from tools.cluster import components
from tools.cluster.binaries import binary, module_dir
from tools.cluster.debian import root_filesystem
from tools.cluster.shell import Say, run

NODE_DIR = Path(__file__).parent / "node"

PACKAGES = (
    *("systemd", "systemd-sysv", "bash", "util-linux", "mount", "kmod", "procps"),
    *("iptables", "nftables", "ebtables", "conntrack", "iproute2", "ethtool", "socat"),
    *("runc", "libseccomp2", "containernetworking-plugins", "ca-certificates", "busybox-static"),
)

PROGRAMS = {
    "usr/bin": ("kubelet", "kubeadm", "kubectl"),
    "usr/local/bin": ("containerd", "containerd-shim-runc-v2", "ctr", "crictl"),
}
"""Programs of a node by their folder."""

_ENABLED = ("kubelet", "containerd", "undo-mount-hacks")
# Units that systemd starts on a machine and must not start in a container.
_UNWANTED = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/basic.target.wants/*",
    "lib/systemd/system/timers.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "etc/systemd/system/*.wants/*",
)


def assemble(root: Path, say: Say) -> None:
    """Write a node's root filesystem, without images, into an empty folder."""
    base = root_filesystem("node", PACKAGES, say)
    run(["tar", "-C", root, "-xpf", base, "--exclude=./dev/*"])
    (root / "dev").mkdir(exist_ok=True)
    _add_kind_files(root)
    for folder, names in PROGRAMS.items():
        for name in names:
            _place(binary(name, say), root / folder / name, executable=True)
    _add_own_files(root)
    _trim_systemd(root)


def _add_kind_files(root: Path) -> None:
    """Copy the files that make a container a node from kind's module."""
    files = module_dir("kind", "sigs.k8s.io/kind") / "images/base/files"
    entrypoint = "usr/local/bin/entrypoint"
    _place(files / entrypoint, root / entrypoint, executable=True)
    for name in ("etc/systemd", "etc/sysctl.d", "etc/default", "etc/crictl.yaml", "kind"):
        source = files / name
        for path in [source] if source.is_file() else sorted(source.rglob("*")):
            if path.is_file():
                _place(path, root / path.relative_to(files), executable=path.suffix == ".sh")


def _add_own_files(root: Path) -> None:
    config = (NODE_DIR / "config.toml").read_text()
    containerd = root / "etc/containerd"
    containerd.mkdir(parents=True)
    pause = components.image_names()["pause"]
    (containerd / "config.toml").write_text(config.replace("@PAUSE@", pause))
    _place(NODE_DIR / "podnet", root / "usr/local/bin/podnet", executable=True)
    for name in ("default-cni.yaml", "default-storage.yaml"):
        _place(NODE_DIR / name, root / "kind/manifests" / name)
    (root / "kind/version").write_text(components.kubernetes_version())
    for folder in ("opt/cni", "etc/cni/net.d", "etc/kubernetes/manifests"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "opt/cni/bin").symlink_to("/usr/lib/cni")


def _trim_systemd(root: Path) -> None:
    for pattern in _UNWANTED:
        for path in root.glob(pattern):
            path.unlink()
    units = root / "etc/systemd/system"
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    for unit in _ENABLED:
        (wanted / f"{unit}.service").symlink_to(f"/etc/systemd/system/{unit}.service")
    (units / "systemd-binfmt.service").symlink_to("/dev/null")
    with (root / "etc/systemd/journald.conf").open("a") as journal:
        # The kernel's log is the host's, and may be unreadable.
        journal.write("ReadKMsg=no\n")


def _place(source: Path, target: Path, *, executable: bool = False) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    usual = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH
    target.chmod(usual | (0o111 if executable else 0))
