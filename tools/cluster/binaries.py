"""Builds the programs of a cluster from Go modules, locked by go.mod and go.sum in programs/.

One folder in programs/ is one family, with one go.mod: its programs share the packages that they
have in common, compiled once. The family kubernetes is what a cluster needs, without containerd and
kind. Containerd's requirements conflict with it; the modules that do not have the same versions in
both. Other minor versions have families of their own: of kubernetes-1.35 and 1.37 tests run the API
server and its companions, kubernetes-1.30 has programs that are built upon its packages. A program
belongs to a family that has most of its packages: those of Kubernetes are nine tenths of what a
controller, or what serves metrics, compiles. Called by every module that needs a program; it knows
how to build one, not its use.
"""

import functools
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.cache import cache_dir, digest, kept, kept_all, place
from tools.cluster.shell import (
    ClusterError,
    NoClusterError,
    Say,
    run,
    run_by_line,
    silent,
)

PROGRAMS_DIR = Path(__file__).parent / "programs"

_KUBERNETES_STAMPS = tuple(
    f"k8s.io/component-base/version.{stamp}"
    for stamp in (
        "gitVersion={version}",
        "gitMajor={major}",
        "gitMinor={minor}",
        "gitTreeState=clean",
    )
)


@dataclass(frozen=True, slots=True)
class Source:
    """A program's source; stamps are the variables that the linker sets, tags go's build tags."""

    family: str
    package: str
    module: str = ""
    stamps: tuple[str, ...] = ()
    tags: str = ""
    alone: bool = False
    """Whether it cannot be built together with others of its family."""

    @property
    def group(self) -> tuple[str, str, bool]:
        """What programs that are built together have in common."""
        return self.family, self.tags, self.alone


def _kubernetes(name: str, family: str = "kubernetes") -> Source:
    package = f"k8s.io/kubernetes/cmd/{name}"
    return Source(family, package, "k8s.io/kubernetes", _KUBERNETES_STAMPS)


def _containerd(name: str) -> Source:
    module = "github.com/containerd/containerd/v2"
    return Source(
        "containerd", f"{module}/cmd/{name}", module, (f"{module}/version.Version={{version}}",)
    )


def _volcano(name: str) -> Source:
    return Source("kubernetes-1.30", f"volcano.sh/volcano/cmd/{name}", "volcano.sh/volcano")


SOURCES: dict[str, Source] = {
    "etcd": Source("kubernetes", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _kubernetes("kube-apiserver"),
    "kubectl": _kubernetes("kubectl"),
    "helm": Source(
        "kubernetes",
        "helm.sh/helm/v4/cmd/helm",
        "helm.sh/helm/v4",
        ("helm.sh/helm/v4/internal/version.version={version}",),
    ),
    "kind": Source("kind", "sigs.k8s.io/kind", "sigs.k8s.io/kind"),
    "kube-controller-manager": _kubernetes("kube-controller-manager"),
    "kube-scheduler": _kubernetes("kube-scheduler"),
    "kubelet": _kubernetes("kubelet"),
    "kube-proxy": _kubernetes("kube-proxy"),
    "kubeadm": _kubernetes("kubeadm"),
    "containerd": _containerd("containerd"),
    "containerd-shim-runc-v2": _containerd("containerd-shim-runc-v2"),
    "ctr": _containerd("ctr"),
    "coredns": Source("kubernetes", "./coredns", "github.com/coredns/coredns"),
    "crictl": Source(
        "kubernetes",
        "sigs.k8s.io/cri-tools/cmd/crictl",
        "sigs.k8s.io/cri-tools",
        ("sigs.k8s.io/cri-tools/pkg/version.Version={version}",),
    ),
    # Its spelling of a module's path collides with that of others in one `go build`.
    "local-path-provisioner": Source(
        "kubernetes",
        "github.com/rancher/local-path-provisioner",
        "github.com/rancher/local-path-provisioner",
        ("main.VERSION={version}",),
        alone=True,
    ),
    "pause": Source("pause", "."),
    "probe": Source("probe", "."),
    "kubeconform": Source(
        "kubeconform",
        "github.com/yannh/kubeconform/cmd/kubeconform",
        "github.com/yannh/kubeconform",
    ),
    "actionlint": Source(
        "actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "github.com/rhysd/actionlint"
    ),
    "kueue": Source(
        "kubernetes",
        "sigs.k8s.io/kueue/cmd/kueue",
        "sigs.k8s.io/kueue",
        ("sigs.k8s.io/kueue/pkg/version.GitVersion={version}",),
    ),
    # kube-scheduler with more plugins, among them Coscheduling.
    "coscheduling": Source(
        "kubernetes-1.30",
        "sigs.k8s.io/scheduler-plugins/cmd/scheduler",
        "k8s.io/kubernetes",
        _KUBERNETES_STAMPS,
    ),
    # Without the clients of clouds by which Prometheus can find targets: one cannot be downloaded.
    "promtool": Source(
        "kubernetes",
        "github.com/prometheus/prometheus/cmd/promtool",
        "github.com/prometheus/prometheus",
        tags="remove_all_sd",
    ),
    # Of these it can find targets by Kubernetes. Its pages are not built in.
    "prometheus": Source(
        "kubernetes",
        "github.com/prometheus/prometheus/cmd/prometheus",
        "github.com/prometheus/prometheus",
        ("github.com/prometheus/common/version.Version={version}",),
        tags="remove_all_sd,enable_kubernetes_sd",
    ),
    # Serves what Prometheus has as metrics of pods, for HorizontalPodAutoscalers.
    "prometheus-adapter": Source(
        "kubernetes-1.30",
        "sigs.k8s.io/prometheus-adapter/cmd/adapter",
        "sigs.k8s.io/prometheus-adapter",
    ),
    # Enforces NetworkPolicies where the pod network does not.
    "kube-router": Source(
        "kubernetes-1.30",
        "github.com/cloudnativelabs/kube-router/cmd/kube-router",
        "github.com/cloudnativelabs/kube-router",
        ("github.com/cloudnativelabs/kube-router/pkg/version.Version={version}",),
    ),
    # What release.yaml lists and signs with, and a registry on loopback to do it in.
    "syft": Source(
        "syft",
        "github.com/anchore/syft/cmd/syft",
        "github.com/anchore/syft",
        ("main.version={version}",),
    ),
    "cosign": Source(
        "cosign",
        "github.com/sigstore/cosign/v3/cmd/cosign",
        "github.com/sigstore/cosign/v3",
        ("sigs.k8s.io/release-utils/version.gitVersion={version}",),
    ),
    "registry": Source(
        "registry",
        "github.com/distribution/distribution/v3/cmd/registry",
        "github.com/distribution/distribution/v3",
    ),
    # A scheduler of gangs, what closes its queues, and what refuses pods.
    "volcano-scheduler": _volcano("scheduler"),
    "volcano-controller-manager": _volcano("controller-manager"),
    "volcano-webhook-manager": _volcano("webhook-manager"),
    # Devices without hardware, for scenarios with GPUs.
    "device-plugin": Source("device-plugin", ".", "k8s.io/kubelet"),
    # An object store, for tests of the trainer with gs:// locations.
    "fake-gcs-server": Source("kubernetes", "github.com/fsouza/fake-gcs-server"),
    # Nodes without machines, for bench/scale.
    "kwok": Source("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    # Kubeflow's operator of TFJobs, which bench/scale measures beside ours.
    "training-operator": Source(
        "training-operator",
        "github.com/kubeflow/training-operator/cmd/training-operator.v1",
        "github.com/kubeflow/training-operator",
    ),
}
"""Every program by name, the first needed first."""

OTHER_KUBERNETES = ("1.35", "1.37")
"""Minor versions of Kubernetes that tests can run beside that of the family kubernetes."""

_OF_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def of_kubernetes(name: str, minor: str) -> str:
    """Return the name of a program in another minor version of Kubernetes, if it has one."""
    return f"{name}-{minor}" if name in _OF_CONTROL_PLANE else name


SOURCES |= {
    of_kubernetes(name, minor): _kubernetes(name, f"kubernetes-{minor}")
    for minor in OTHER_KUBERNETES
    for name in _OF_CONTROL_PLANE
}


# GOFLAGS of the user could change what is built without changing the digest.
_SETTINGS = {"CGO_ENABLED": "0", "GOFLAGS": ""}

# The linker would drop what the compiler writes for debuggers. With more memory for the compiler, a
# build takes a tenth less; the programs are the same.
_FASTER = ("-gcflags=all=-dwarf=false",)
_GO_HEAP = {"GOGC": "400"}

_VERSION_COMMANDS = {
    "kind": ("version",),
    "kubectl": ("version", "--client"),
    "helm": ("version",),
}


def binary(name: str, say: Say = silent) -> Path:
    """Return the path of a program; build it if it is not cached. Raises ClusterError."""
    source = SOURCES.get(name)
    if source is None:
        raise ClusterError(f"unknown program {name}; the programs are: {', '.join(SOURCES)}")

    def make(folder: Path) -> None:
        say(f"building {name} from its Go module")
        _go_build({name: folder})

    path = kept("binaries", name, _key(source), make) / name
    _link(path)
    return path


def is_built(name: str) -> bool:
    """Whether `binary` has a program at once."""
    return place("binaries", name, _key(SOURCES[name])).is_dir()


def build_together(
    names: Iterable[str], share: Callable[[float], None] = lambda _share: None
) -> None:
    """Build the programs that are not cached, those of a family with one `go build`.

    It compiles only once what they have in common, and links several at a time. `share` is called
    with the share of the packages that are compiled. Raises ClusterError.
    """
    groups: dict[tuple[str, str, bool], dict[str, str]] = {}
    for name in names:
        if not is_built(name):
            groups.setdefault(SOURCES[name].group, {})[name] = _key(SOURCES[name])
    total = sum(_count_packages(list(keys)) for keys in groups.values())
    numbers = itertools.count(1)

    def compiled(_package: str) -> None:
        share(next(numbers) / total)

    for keys in groups.values():
        made = kept_all("binaries", keys, lambda folders: _go_build(folders, compiled))
        for name, folder in made.items():
            _link(folder / name)


def program(name: str, say: Say = silent) -> Path:
    """Return the machine's own client if its minor version is the same, else that of `binary`."""
    return of_machine(name) or binary(name, say)


def of_machine(name: str) -> Path | None:
    """Return the machine's own client if its minor version is the same as that of `binary`."""
    found = shutil.which(name) if name in _VERSION_COMMANDS else None
    return Path(found) if found and _fits(name, found) else None


@functools.cache  # each command of a test's kubectl would begin with another two
def _fits(name: str, client: str) -> bool:
    source, asked = SOURCES[name], _VERSION_COMMANDS[name]
    minor = version(source.family, source.module).rpartition(".")[0]
    try:
        return f"{minor}." in run([client, *asked])
    except ClusterError:
        return False


def bin_dir() -> Path:
    """Return the folder with a link to the latest build of each program."""
    return cache_dir() / "bin"


def version(family: str, module: str) -> str:
    """Read a module's version from its family's go.mod."""
    text = (PROGRAMS_DIR / family / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ClusterError(f"tools/cluster/programs/{family}/go.mod does not require {module}")
    return found[1]


def module_dir(family: str, module: str) -> Path:
    """Return the folder of a module's sources; download them if needed."""
    folder = PROGRAMS_DIR / family
    _go_version()
    run(["go", "mod", "download", module], cwd=folder, env={"GOFLAGS": ""})
    listed = run(["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=folder, env={"GOFLAGS": ""})
    return Path(listed.strip())


def _key(source: Source) -> str:
    """Return the digest of everything that decides what a program is."""
    folder = PROGRAMS_DIR / source.family
    files = sorted(folder.rglob("*.*"))
    return digest(*files, source.package, " ".join(_flags(source)), _go_version())


def _go_build(folders: Mapping[str, Path], compiled: Say = silent) -> None:
    """Build programs of one family, each into its folder, with one `go build`."""
    sources = {name: SOURCES[name] for name in folders}
    source = next(iter(sources.values()))
    out = next(iter(folders.values())) / "out"
    packages = [each.package for each in sources.values()]
    # What the user does meanwhile comes first.
    command = ["nice", "go", "build", "-v", *_FASTER, *_flags(source), "-o", f"{out}/", *packages]
    out.mkdir()
    run_by_line(command, compiled, cwd=PROGRAMS_DIR / source.family, env=_SETTINGS | _GO_HEAP)
    for name, each in sources.items():
        (out / output_name(each)).rename(folders[name] / name)
    out.rmdir()


def output_name(source: Source) -> str:
    """Return the name that `go build` gives to a program: the package's, without its version."""
    if source.package == ".":
        return source.family
    words = source.package.split("/")
    return words[-2] if re.fullmatch(r"v\d+", words[-1]) else words[-1]


def _count_packages(names: Sequence[str]) -> int:
    """Return how many packages go into programs of one family; download what is missing."""
    source = SOURCES[names[0]]
    command = [
        "go",
        "list",
        "-deps",
        *_mod_flags(source),
        *(SOURCES[name].package for name in names),
    ]
    return len(run(command, cwd=PROGRAMS_DIR / source.family, env=_SETTINGS).splitlines())


def _flags(source: Source) -> list[str]:
    """Return the flags of `go build`: the same for all programs that are built together."""
    words = ["-s", "-w"]
    # The linker ignores stamps of packages that are not in a program.
    together = [each for each in SOURCES.values() if each.group == source.group]
    for each in dict.fromkeys((each.module, each.stamps) for each in together):
        module, stamps = each
        if stamps:
            found = version(source.family, module)
            major, minor = found.removeprefix("v").split(".")[:2]
            for stamp in stamps:
                words += ["-X", stamp.format(version=found, major=major, minor=minor)]
    return ["-trimpath", "-buildvcs=false", *_mod_flags(source), f"-ldflags={' '.join(words)}"]


def _mod_flags(source: Source) -> list[str]:
    return ["-mod=readonly", *([f"-tags={source.tags}"] if source.tags else [])]


@functools.cache
def _go_version() -> str:
    if shutil.which("go") is None:
        raise NoClusterError(
            "Go is not installed: install Go 1.26 or newer, or set KUBECONFIG to your own cluster"
        )
    # In a family's folder, Go reports the toolchain that its go.mod selects.
    return run(["go", "env", "GOVERSION", "GOARCH"], cwd=PROGRAMS_DIR / "pause")


def _link(path: Path) -> None:
    link = bin_dir() / path.name
    if link.is_symlink() and link.readlink() == path:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{path.name}.{os.getpid()}")
    fresh.symlink_to(path)
    fresh.replace(link)
