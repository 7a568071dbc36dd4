"""Provides the image of a cluster's nodes: kind's public one, or one built here."""

import ast
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.cluster import components, node_root
from tools.cluster.binaries import PROGRAMS_DIR, binary, build_together
from tools.cluster.cache import cache_dir, digest, locked, scratch
from tools.cluster.engine import Engine
from tools.cluster.shell import Argument, ClusterError, NoClusterError, Say, bound, run

# The default of the kind release in programs/kind, by its digest so that it is the same every time.
PUBLIC = (
    "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"
)
REPOSITORY = "tftraining/node"

_FAMILIES = ("kubernetes", "containerd", "kind", "pause")
_PULL_SECONDS = 900


def own_name() -> str:
    """Return the name of the image that is built here; it changes with each of its inputs."""
    sources = [PROGRAMS_DIR / family for family in _FAMILIES]
    modules = [Path(module.__file__ or "") for module in (components, node_root)]
    code = [statements(path.read_text()) for path in (*modules, Path(__file__))]
    key = digest(*sources, node_root.NODE_DIR, *code)
    return f"{REPOSITORY}:{components.kubernetes_version()}-{key[:12]}"


def statements(source: str) -> str:
    """Return a module's code without what changes no image: imports, comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                statement
                for statement in body
                if not isinstance(statement, ast.Import | ast.ImportFrom)
                and not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                )
            ]
    return ast.unparse(tree)


def node_image(engine: Engine, say: Say) -> str:
    """Return the name of a node image; pull or build it if the engine has none."""
    return existing(engine) or pulled(engine, say) or built(engine, say)


def existing(engine: Engine) -> str:
    """Return the name of the node image that the engine has, "" if it has none."""
    return next((image for image in (own_name(), PUBLIC) if engine.has_image(image)), "")


def pulled(engine: Engine, say: Say) -> str:
    """Return the name of kind's public image, "" if it must be built because no pull succeeds."""
    say("pulling kind's public node image")
    try:
        engine.docker("pull", "--quiet", PUBLIC, timeout=_PULL_SECONDS)
    except ClusterError:
        if engine.machine.why_no_engine:
            raise NoClusterError(
                "cannot pull kind's node image, and building one requires root on Debian: "
                "set KUBECONFIG to your own cluster"
            ) from None
        say("the pull failed: building it from Go modules and Debian packages")
        return ""
    return PUBLIC


def built(engine: Engine, say: Say) -> str:
    """Build the node image unless the engine has it, and return its name."""
    own = own_name()
    with locked(cache_dir() / "locks" / "node-image"):
        if not engine.has_image(own):
            _make(engine, own, say)
    return own


def programs() -> list[str]:
    """Return the names of the programs that are in the node image."""
    of_node = [name for names in node_root.PROGRAMS.values() for name in names]
    return [*dict.fromkeys([*of_node, *components.PROGRAMS])]


def _make(engine: Engine, image: str, say: Say) -> None:
    say("building Kubernetes from its Go modules (minutes, once)")
    build_together(programs())
    with scratch("node-image") as work:
        root, images = work / "root", work / "images"
        root.mkdir(mode=0o755)
        images.mkdir()
        node_root.assemble(root, say)
        say("building the images of Kubernetes' own pods")
        archives = components.write_all(images, root, engine.machine.architecture, say)
        say("loading them into the node image")
        _preload(root, work / "containerd", archives, say)
        shutil.rmtree(images)
        say("importing the node image")
        tar = work / "root.tar"
        run(["tar", "-C", root, "-cf", tar, "."])
        entrypoint = 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]'
        changes = ["--change", entrypoint, "--change", "ENV container=docker"]
        engine.docker("import", *changes, tar, image)
    _remove_older(engine, image)


def _remove_older(engine: Engine, image: str) -> None:
    """Remove earlier node images, a gigabyte each, unless a node still uses one."""
    listed = engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY)
    for older in set(listed.split()) - {image}:
        with contextlib.suppress(ClusterError):
            engine.docker("rmi", older)


def _preload(root: Path, work: Path, archives: list[Path], say: Say) -> None:
    """Import the images into the node's containerd, so that a node starts without pulling."""
    work.mkdir()
    config = work / "preload.toml"
    store = root / "var/lib/containerd"
    template = (node_root.NODE_DIR / "preload.toml").read_text()
    # Not in the cache: the path of a socket may have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tftraining-") as state:
        config.write_text(template.replace("@ROOT@", str(store)).replace("@STATE@", state))
        socket = Path(state) / "socket"
        ctr: list[Argument] = [binary("ctr", say), "--address", socket, "--namespace", "k8s.io"]
        with _containerd(config, work / "log", say) as containerd:
            _wait(socket, containerd)
            for archive in archives:
                # --local, because the transfer service needs plugins that are disabled here.
                run([*ctr, "images", "import", "--local", "--discard-unpacked-layers", archive])


@contextmanager
def _containerd(config: Path, log: Path, say: Say) -> Iterator[subprocess.Popen[bytes]]:
    # In a mount namespace, so that its mounts end with it, even if it is killed.
    command: list[Argument] = ["unshare", "--mount", binary("containerd", say), "--config", config]
    with log.open("wb") as output:
        process = subprocess.Popen(bound(command), stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def _wait(socket: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        if socket.exists():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            break
    raise ClusterError("the containerd that imports the node's images did not start")
