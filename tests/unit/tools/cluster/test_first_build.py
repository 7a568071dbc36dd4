"""A first start builds side by side, and says so; every other start is that of `up`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tools.cluster import Cluster, engine, first_build
from tools.cluster.cluster import NODE_IMAGE
from tools.cluster.engine import Engine
from tools.cluster.first_build import Beside, start, steps
from tools.cluster.machine import look
from tools.cluster.steps import Progress, Step

CLUSTER = Cluster("mine", Path("/kubeconfig"))
ENGINE = Engine({}, ours=True, machine=look())


@pytest.mark.parametrize(
    ("there", "used", "image", "built"),
    [
        pytest.param(True, False, "", False, id="a cluster is given or runs"),
        pytest.param(False, True, "node", False, id="the engine has a node image"),
        pytest.param(False, True, "", True, id="the engine has none"),
        pytest.param(False, False, "", True, id="no engine ran here before"),
    ],
)
def test_only_a_start_without_a_node_image_is_a_first_build(
    monkeypatch: pytest.MonkeyPatch, *, there: bool, used: bool, image: str, built: bool
) -> None:
    done: list[str] = []

    def show(progress: Progress) -> nullcontext[None]:
        done.append(f"show {progress.state().total}")
        return nullcontext()

    monkeypatch.delenv(NODE_IMAGE, raising=False)
    monkeypatch.setattr(first_build, "is_there", lambda _: there)
    monkeypatch.setattr(engine, "was_started", lambda: used)
    monkeypatch.setattr(engine, "engine", lambda _: ENGINE)
    monkeypatch.setattr(first_build, "existing", lambda _: image)
    monkeypatch.setattr(first_build, "pulled", lambda *_: "")
    monkeypatch.setattr(first_build, "up", lambda *_, **__: CLUSTER)
    monkeypatch.setattr(
        first_build,
        "steps",
        lambda *_, own: [Step("node", 1, lambda _: done.append(f"build, own {own}"))],
    )

    beside = Beside(lambda: done.append("begin"), show)
    assert start("mine", say=done.append, workers=0, beside=beside) is CLUSTER

    assert done == (["begin", "show 1", "build, own True"] if built else [])


@pytest.mark.parametrize("own", [True, False])
def test_each_step_stands_behind_those_that_it_needs(*, own: bool) -> None:
    known: set[str] = set()
    for step in steps(ENGINE, lambda: CLUSTER, own=own):
        assert known.issuperset(step.needs)
        known.add(step.name)

    assert ("node image" in known) is own
    assert {"cluster", "trainer image", "images in the cluster"} <= known
