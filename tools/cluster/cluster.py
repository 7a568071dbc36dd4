"""Creates, finds and deletes the cluster; scenarios, demo and the command line call it.

A cluster given in KUBECONFIG is used as it is. A kind cluster is ready once its `ready` file
exists, which is written last: the next run deletes what a killed run left. A `temporary` file says
that the cluster is to be deleted at the end of the run that made it or, if it was killed, the next.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.cluster import engine as engines
from tools.cluster import kind
from tools.cluster.binaries import program
from tools.cluster.cache import cache_dir, digest, locked
from tools.cluster.engine import Engine
from tools.cluster.node_image import node_image
from tools.cluster.shell import Argument, ClusterError, NoClusterError, Say, run, silent, succeeds

NAME = "tftraining"
NODE_IMAGE = "TFTRAINING_NODE_IMAGE"
"""Variable that names another node image than that of node_image, such as kind's for a version."""

_READY_SECONDS = 120
_LATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    name: str
    kubeconfig: Path
    given: bool = False
    """Whether it was given in KUBECONFIG; it is never deleted."""
    engine: Engine | None = field(default=None, repr=False)
    say: Say = field(default=silent, repr=False)

    @property
    def docker(self) -> dict[str, str]:
        """The environment in which docker commands reach the cluster's engine."""
        return dict(self.engine.env) if self.engine else {}

    def load(self, image: str) -> None:
        """Load an image of the engine into the nodes; a given cluster must provide it itself."""
        if self.engine is None:
            self.say(f"{image}: your cluster must have this image or be able to pull it")
        else:
            kind.load(self.engine, self.name, image)

    def tool(self, name: str) -> Path:
        """Return the path of kubectl, helm, kind or another program."""
        return program(name, self.say)

    def kubectl(self, *arguments: str | Path, text_in: str | None = None) -> str:
        """Run kubectl against the cluster."""
        command = [self.tool("kubectl"), "--kubeconfig", self.kubeconfig, *arguments]
        return run(command, text_in=text_in)


@contextmanager
def obtain(
    name: str = NAME,
    *,
    say: Say = print,
    workers: int = 0,
    keep: bool = False,
    start: Callable[..., Cluster] | None = None,
) -> Iterator[Cluster]:
    """Provide the given cluster, the running one, or a new one for the time of the block.

    It is the caller's alone: who installs another operator into it or deletes it has to wait.
    `start` is called in the place of `up`.
    """
    given = given_kubeconfig()
    with alone(digest(given) if given else name, say):
        stays = keep or given is not None or (is_there(name) and not _mark(name).exists())
        if keep:
            keep_up(name)
        elif not stays:
            _mark(name).parent.mkdir(parents=True, exist_ok=True)
            _mark(name).touch()
        try:
            yield (start or up)(name, say=say, workers=workers)
        finally:
            # Without its mark, somebody has asked for it meanwhile and was told where it is.
            if not stays and _mark(name).exists():
                for line in down(name, say=say):
                    _regardless(say)(f"could not be removed: {line}")


def keep_up(name: str) -> None:
    """Have a cluster stay after this run and the next, though it may be what a killed run left."""
    _mark(name).unlink(missing_ok=True)


def alone(used: str, say: Say) -> AbstractContextManager[None]:
    """Wait until no other run uses this cluster, its engine and the images."""
    why = "another run uses the cluster and the images: waiting until it has ended"
    return _held(used, lambda: say(why))


def is_there(name: str = NAME) -> bool:
    """Whether a cluster is given, or is running."""
    return given_kubeconfig() is not None or _is_there(_kind_cluster(name))


def up(name: str = NAME, *, say: Say = print, workers: int = 0, gangs: bool = False) -> Cluster:
    """Return the given cluster, the running one, or a new one, if asked with Kubernetes' gangs."""
    given = given_kubeconfig()
    if given:
        say(f"using the cluster of your KUBECONFIG, {given}")
        return Cluster(name="given", kubeconfig=given, given=True, say=say)
    with _exclusive():
        folder = _folder(name)
        engine = engines.engine(say)
        cluster = _kind_cluster(name, engine, say)
        if name in kind.clusters(engine):
            if _is_foreign(engine, name):
                raise NoClusterError(
                    f"the Docker engine has a cluster {name} that was not made from this cache, "
                    f"{cache_dir()}: set KUBECONFIG to use it, or delete it: "
                    f"kind delete cluster --name {name}"
                )
            if _is_up(cluster) or _answers_late(cluster):
                return cluster
            say(f"deleting an incomplete cluster {name}")
            kind.delete(engine, name, folder)
        _ready_file(name).unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        image = os.environ.get(NODE_IMAGE) or node_image(engine, say)
        say(f"creating the cluster {name}")
        kind.create(engine, name, image, workers=workers, folder=folder, say=say, gangs=gangs)
        _wait(cluster)
        _ready_file(name).write_text(image)
        return cluster


def find(name: str = NAME, *, say: Say = silent) -> Cluster:
    """Return the given or the running cluster. Raises ClusterError if there is none."""
    given = given_kubeconfig()
    if given:
        return Cluster(name="given", kubeconfig=given, given=True, say=say)
    cluster = _kind_cluster(name, say=say)
    if _is_up(cluster):
        return replace(cluster, engine=engines.engine(say))
    raise ClusterError(f"cluster {name} is not running: python -m tools.cluster up --name {name}")


def down(name: str = NAME, *, say: Say = print) -> list[str]:
    """Delete the cluster, and the engine with the last one; return what could not be removed."""
    say = _regardless(say)
    with _exclusive():
        _ready_file(name).unlink(missing_ok=True)
        try:
            last = _delete(name, say)
        except ClusterError:
            # Without a client that works, a cluster still ends with its engine.
            if not [folder for folder in _folders().glob("*") if folder != _folder(name)]:
                engines.stop(say)
            raise
        return engines.stop(say) if last else []


def _regardless(say: Say) -> Say:
    """Return how to report to somebody who may be gone, such as a terminal that was closed."""

    def reported(line: str) -> None:
        # rich ends the program where a pipe is closed.
        with contextlib.suppress(OSError, SystemExit):
            say(line)

    return reported


def _delete(name: str, say: Say) -> bool:
    """Delete the cluster; return whether it was the last one of an engine of ours."""
    engine = _engine_of_earlier(say)
    if engine is not None and name in kind.clusters(engine):
        if _is_foreign(engine, name):
            say(f"the cluster {name} stays: it was not made from this cache, {cache_dir()}")
        else:
            say(f"deleting the cluster {name}")
            kind.delete(engine, name, _folder(name))
    if _folder(name).exists():
        shutil.rmtree(_folder(name))
    if engine is None or kind.clusters(engine) or not engine.ours:
        return False
    if engine.docker("network", "ls", "--quiet", "--filter", f"name=^{kind.NETWORK}$"):
        engine.docker("network", "rm", kind.NETWORK)
    return True


def remove_remains(name: str = NAME, *, say: Say = print) -> list[str]:
    """Remove a cluster that no longer answers and an engine that was cut off.

    The machine is then as it was before them, which a comparison needs. Returns what could not be
    removed. Raises ClusterError if another run uses, creates or deletes a cluster at this moment.
    """
    if given_kubeconfig() or not engines.used():
        return []
    with _held(name, _raise_busy):
        with _exclusive(_raise_busy):
            pass
        # What runs in its containers may outlive an engine that was killed, for a while.
        runs = engines.pid() is not None and not _mark(name).exists()
        if runs and _is_there(_kind_cluster(name)):
            return []
        say("removing what an earlier run left that was cut off")
        return down(name, say=say)


def _raise_busy() -> None:
    raise ClusterError("another run uses the cluster or its engine")


def given_kubeconfig() -> Path | None:
    """Return the user's KUBECONFIG, unless it is that of a kind cluster of ours."""
    named = os.environ.get("KUBECONFIG", "")
    if not named:
        return None
    path = Path(named).expanduser().absolute()
    if path.is_relative_to(_folders()):
        return None
    if not path.is_file():
        raise NoClusterError(f"KUBECONFIG must name one file; {named} is not a file")
    return path


def _engine_of_earlier(say: Say) -> Engine | None:
    """Return the engine if it may have clusters of ours; start it only to clean up."""
    if engines.used():
        return engines.engine(say)
    if succeeds(["docker", "version"], timeout=20):
        return engines.engine(say)
    return None


def _wait(cluster: Cluster) -> None:
    """Wait until the cluster's own pods are available; kind waits only for the nodes."""
    limit = f"--timeout={_READY_SECONDS}s"
    for namespace in ("kube-system", "local-path-storage"):
        cluster.kubectl(
            "wait", "--for=condition=Available", "deployment", "--all", "-n", namespace, limit
        )
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", limit)


def _kind_cluster(name: str, engine: Engine | None = None, say: Say = silent) -> Cluster:
    return Cluster(name, _folder(name) / "kubeconfig", engine=engine, say=say)


def _is_up(cluster: Cluster) -> bool:
    # The file alone says nothing: it outlives a machine that was switched off under its cluster.
    return _ready_file(cluster.name).exists() and _answers(cluster)


def _is_there(cluster: Cluster) -> bool:
    return _is_up(cluster) or _runs(cluster)


def _runs(cluster: Cluster) -> bool:
    """Whether the nodes of a complete cluster run; it may be too busy to answer."""
    if not _ready_file(cluster.name).exists():
        return False
    engine = cluster.engine or engines.running()
    return engine is not None and bool(kind.nodes(engine, cluster.name))


def _answers_late(cluster: Cluster) -> bool:
    """Wait for a complete cluster whose nodes run, rather than delete what is in it."""
    if not _runs(cluster):
        return False
    cluster.say(f"waiting for the cluster {cluster.name} to answer")
    end = time.monotonic() + _LATE_SECONDS
    while not _answers(cluster):
        if time.monotonic() > end:
            raise ClusterError(
                f"the cluster {cluster.name} runs, but does not answer: `make cluster-down` "
                "deletes it with all that is in it"
            )
        time.sleep(1)
    return True


def _is_foreign(engine: Engine, name: str) -> bool:
    # An engine of the user's may serve several users; ours belongs to one cache.
    return not engine.ours and not (_folder(name) / "kind.yaml").exists()


def _answers(cluster: Cluster) -> bool:
    kubectl: list[Argument] = [cluster.tool("kubectl"), "--kubeconfig", cluster.kubeconfig]
    return succeeds([*kubectl, "get", "--raw", "/readyz", "--request-timeout=5s"])


def _held(used: str, waits: Callable[[], None]) -> AbstractContextManager[None]:
    return locked(cache_dir() / "locks" / f"used-{used}", waits)


def _exclusive(waits: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
    """Wait for other runs; one lock for all names, because the last cluster stops the engine."""
    return locked(cache_dir() / "locks" / "clusters", waits)


def _folders() -> Path:
    return cache_dir() / "clusters"


def _folder(name: str) -> Path:
    return _folders() / name


def _ready_file(name: str) -> Path:
    return _folder(name) / "ready"


def _mark(name: str) -> Path:
    return _folder(name) / "temporary"
