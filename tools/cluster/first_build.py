"""Starts a cluster on a machine that has no node image yet: builds side by side what takes long.

The demo calls it. What the steps make is cached or kept by the engine, so `cluster.up` and
`images.build_images`, which make one thing after another, find everything there.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tools.cluster import engine as engines
from tools.cluster import images, node_root
from tools.cluster.binaries import build_together, of_machine
from tools.cluster.cluster import NODE_IMAGE, Cluster, is_there, up
from tools.cluster.debian import root_filesystem
from tools.cluster.engine import Engine
from tools.cluster.node_image import built, existing, programs, pulled
from tools.cluster.shell import Say, silent
from tools.cluster.steps import Progress, Share, Step, run_side_by_side
from tools.cluster.wheels import wheelhouse

_CLIENTS = ("kind", "kubectl", "helm")


@dataclass(frozen=True, slots=True)
class Beside:
    """What a caller does while the cluster is built."""

    begin: Callable[[], None]
    """Called once it is known that there is something to build."""
    show: Callable[[Progress], AbstractContextManager[None]]
    """Shows the progress for the time of a block."""


def start(name: str, *, say: Say, workers: int, beside: Beside) -> Cluster:
    """Return the given cluster, the running one, or a new one, as `up` does."""
    if is_there(name) or _has_node_image(say):
        return up(name, say=say, workers=workers)
    beside.begin()
    engine = engines.engine(say)
    public = pulled(engine, say)
    made = steps(engine, lambda: up(name, say=silent, workers=workers), own=not public)
    progress = Progress(made)
    with beside.show(progress):
        run_side_by_side(made, progress)
    return up(name, say=say, workers=workers)


def _has_node_image(say: Say) -> bool:
    if os.environ.get(NODE_IMAGE):
        return True
    return engines.was_started() and bool(existing(engines.engine(say)))


def steps(engine: Engine, create: Callable[[], Cluster], *, own: bool) -> list[Step]:
    """Return what a cluster with both images needs; `own` says whether its node image is built.

    The seconds are estimates for two idle cores; the progress corrects them by the speed it sees.
    """
    clients = [name for name in _CLIENTS if of_machine(name) is None]
    wanted = [*programs(), *clients] if own else clients

    def load(_share: Share) -> None:
        cluster = create()
        for image in images.RECIPES:
            cluster.load(images.image_name(image))

    found = [
        Step("programs", 420 if own else 60, lambda share: build_together(wanted, share)),
        Step("operator packages", 5, lambda _: _wheels("operator")),
        Step("trainer packages", 30, lambda _: _wheels("trainer")),
        Step("Python image", 25, lambda _: images.python_image(engine, silent)),
        _image("operator", 15),
        _image("trainer", 60),
    ]
    if own:
        found += [
            Step("Debian for nodes", 30, lambda _: _debian()),
            Step(
                "node image", 45, lambda _: built(engine, silent), ("programs", "Debian for nodes")
            ),
        ]
    return [
        *found,
        Step("cluster", 40, lambda _: create(), ("node image" if own else "programs",)),
        Step("images in the cluster", 15, load, ("cluster", "operator image", "trainer image")),
    ]


def _image(name: str, seconds: float) -> Step:
    def build(_share: Share) -> None:
        images.build_images(name, say=silent)

    return Step(f"{name} image", seconds, build, (f"{name} packages", "Python image"))


def _wheels(name: str) -> None:
    wheelhouse(images.RECIPES[name].lock, silent)


def _debian() -> None:
    root_filesystem("node", node_root.PACKAGES, silent)
