"""Builds the images of a cluster's own pods from programs, under the names that kubeadm expects."""

import re
import shutil
from pathlib import Path

from tools.cluster import archive
from tools.cluster.binaries import binary, version
from tools.cluster.shell import ClusterError, Say, run, silent

SHELL = "localhost/shell:1"
STORAGE = "localhost/local-path-provisioner:1"

PROGRAMS = (
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"),
    *("coredns", "pause", "local-path-provisioner", "kube-proxy"),
)
"""Programs of which each gets an image."""

_AT_ROOT = ("coredns", "pause", "local-path-provisioner")
_SHELL_COMMANDS = ("sh", "cat", "chroot", "mkdir", "rm", "wget", "nslookup", "httpd", "sleep", "id")


def kubernetes_version() -> str:
    """Return the Kubernetes version of the node image."""
    return version("kubernetes", "k8s.io/kubernetes")


def image_names(say: Say = silent) -> dict[str, str]:
    """Return the image names that kubeadm expects, by component."""
    listed = run(
        [
            *(binary("kubeadm", say), "config", "images", "list"),
            # Given a version, kubeadm does not ask the network for one.
            *("--kubernetes-version", kubernetes_version()),
        ]
    )
    names = re.findall(r"^\S+/[\w-]+:\S+$", listed, re.MULTILINE)
    return {name.rsplit("/", 1)[1].partition(":")[0]: name for name in names}


def write_all(folder: Path, root: Path, architecture: str, say: Say) -> list[Path]:
    """Write every image as an archive; root is the node's root filesystem with its programs."""
    names = image_names(say)
    contents = {
        name: {"" if name in _AT_ROOT else "usr/local/bin": binary(name, say)} for name in PROGRAMS
    }
    contents["shell"] = {"bin": root / "bin/busybox"}
    names |= {"local-path-provisioner": STORAGE, "shell": SHELL}
    unknown = names.keys() ^ contents.keys()
    if unknown:
        raise ClusterError(f"kubeadm and this module disagree about images: {sorted(unknown)}")
    archives = []
    for name, files in contents.items():
        content = folder / name
        for place, program in files.items():
            (content / place).mkdir(parents=True)
            shutil.copy2(program, content / place / program.name)
        if name == "kube-proxy":
            _add_packet_filters(content, root)
        if name == "shell":
            for command in _SHELL_COMMANDS:
                (content / "bin" / command).symlink_to("busybox")
            (content / "tmp").mkdir(mode=0o777)
        out = folder / f"{name}.tar"
        entrypoint = [f"/{name}"] if (content / name).is_file() else []
        archive.write(out, names[name], content, entrypoint=entrypoint, architecture=architecture)
        shutil.rmtree(content)
        archives.append(out)
    return archives


def _add_packet_filters(content: Path, root: Path) -> None:
    """Add iptables and nft with every library that they or iptables' plugins load.

    A plugin's missing library shows only when a rule uses the plugin: nodes become Ready and
    DNS answers, but new services don't. So the libraries of all plugins are looked up.
    """
    programs = content / "usr/sbin"
    programs.mkdir(parents=True)
    for name in ("xtables-nft-multi", "nft"):
        shutil.copy2((root / "usr/sbin" / name).resolve(), programs / name)
    for family in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            (programs / f"{family}{suffix}").symlink_to("xtables-nft-multi")
    plugins = next(root.glob("usr/lib/*/xtables"))
    shutil.copytree(plugins, content / plugins.relative_to(root))
    _copy_libraries(content, root, plugins)
    for name in ("etc", "run", "tmp"):
        (content / name).mkdir(exist_ok=True)
    _prove_plugins(content)


def _copy_libraries(content: Path, root: Path, plugins: Path) -> None:
    inside = [f"/{path.relative_to(root)}" for path in sorted(plugins.glob("*.so"))]
    users = ["/usr/sbin/xtables-nft-multi", "/usr/sbin/nft", *inside]
    linked = run(["chroot", root, "ldd", *users])
    for library in sorted(set(re.findall(r"(/\S+\.so[.\d]*) \(0x", linked))):
        target = content / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Inside the root, because a link of the root's may be an absolute one.
        real = run(["chroot", root, "readlink", "-f", library]).strip()
        shutil.copy2(root / real.lstrip("/"), target)


def _prove_plugins(content: Path) -> None:
    for match in ("statistic", "comment", "conntrack", "mark", "addrtype", "recent", "multiport"):
        run(["chroot", content, "/usr/sbin/iptables", "-m", match, "--help"])
    run(["chroot", content, "/usr/sbin/nft", "--version"])
