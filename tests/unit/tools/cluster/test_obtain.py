"""A cluster is one run's at a time: a second would replace the operator under the first."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import supply_chain
from tools.cluster import Cluster, ClusterError, cluster, engine, images, obtain, remove_remains
from tools.cluster import __main__ as commands
from tools.cluster.cache import locked

_SECONDS = 10


@pytest.fixture(autouse=True)
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "config"
    path.write_text("clusters: []")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def test_a_second_run_waits_for_the_first_and_says_so(given: Path) -> None:
    waits, entered = threading.Event(), threading.Event()

    def say(line: str) -> None:
        if "waiting until it has ended" in line:
            waits.set()

    def run() -> None:
        with obtain(say=say):
            entered.set()

    second = threading.Thread(target=run)
    with obtain(say=say) as first:
        assert first == Cluster("given", given, given=True, say=say)
        second.start()
        assert waits.wait(_SECONDS)
        assert not entered.is_set()
    second.join(_SECONDS)

    assert entered.is_set()


def test_a_run_that_failed_leaves_the_cluster_to_the_next() -> None:
    lines: list[str] = []
    with pytest.raises(RuntimeError), obtain(say=lines.append):
        raise RuntimeError

    with obtain(say=lines.append):
        pass

    assert not [line for line in lines if "waiting" in line]


@pytest.mark.parametrize(("answers", "stays"), [(True, True), (False, False)])
def test_only_a_cluster_that_was_up_before_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, answers: bool, stays: bool
) -> None:
    # A machine that is switched off takes the cluster with it, but not the file.
    ready = tmp_path / "cache/clusters/mine/ready"
    ready.parent.mkdir(parents=True)
    ready.write_text("an image")
    deleted: list[str] = []
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setattr(engine, "running", lambda: None)
    monkeypatch.setattr(cluster, "program", lambda *_: Path("true" if answers else "false"))
    monkeypatch.setattr(cluster, "up", lambda name, **_: Cluster(name, tmp_path))
    monkeypatch.setattr(cluster, "down", lambda name, **_: deleted.append(name) or [])

    with obtain("mine"):
        assert not deleted

    assert deleted == ([] if stays else ["mine"])


@pytest.mark.parametrize(
    ("used", "pid", "answers", "removed"),
    [
        (True, 1, True, []),
        (True, 1, False, ["mine"]),
        (True, None, True, ["mine"]),
        (False, None, False, []),
    ],
)
def test_only_what_was_cut_off_is_removed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    used: bool,
    pid: int | None,
    answers: bool,
    removed: list[str],
) -> None:
    ready = tmp_path / "cache/clusters/mine/ready"
    ready.parent.mkdir(parents=True)
    ready.touch()
    deleted: list[str] = []

    def down(name: str, **_: object) -> list[str]:
        deleted.append(name)
        return []

    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setattr(engine, "used", lambda: used)
    monkeypatch.setattr(engine, "pid", lambda: pid)
    monkeypatch.setattr(engine, "running", lambda: None)
    monkeypatch.setattr(cluster, "program", lambda *_: Path("true" if answers else "false"))
    monkeypatch.setattr(cluster, "down", down)

    assert remove_remains("mine") == []
    assert deleted == removed


@pytest.mark.parametrize("lock", ["used-mine", "clusters"])
def test_nothing_is_removed_while_another_run_builds_or_uses_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lock: str
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setattr(engine, "used", lambda: True)
    monkeypatch.setattr(cluster, "down", lambda *_, **__: pytest.fail("deleted"))

    with (
        locked(tmp_path / "cache/locks" / lock),
        pytest.raises(ClusterError, match="another run"),
    ):
        remove_remains("mine")


def test_deleting_the_cluster_waits_for_the_run_that_uses_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits, deleted = threading.Event(), threading.Event()

    def down(*_: object, **__: object) -> list[str]:
        deleted.set()
        return []

    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setattr(cluster, "up", lambda name, **_: Cluster(name, Path("config")))
    monkeypatch.setattr(cluster, "down", down)
    monkeypatch.setattr(commands, "down", down)
    monkeypatch.setattr(commands, "_line", lambda _: waits.set())
    second = threading.Thread(target=commands.down_command, args=("mine",))

    with obtain("mine", keep=True):
        second.start()
        assert waits.wait(_SECONDS)
        assert not deleted.is_set()
    second.join(_SECONDS)

    assert deleted.is_set()
    assert "deleted" in capsys.readouterr().out


def test_a_run_names_what_could_not_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setattr(cluster, "up", lambda name, **_: Cluster(name, Path("config")))
    monkeypatch.setattr(cluster, "down", lambda *_, **__: ["links: br-0123456789ab"])

    with obtain("mine", say=said.append):
        assert said == []

    assert said == ["could not be removed: links: br-0123456789ab"]


class Killed(BaseException):
    """Ends a run without its clean-up."""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A cluster that is up, left by a run that was killed; and what is deleted from now on."""
    folder, deleted = tmp_path / "cache/clusters/mine", list[str]()

    def up(name: str, **_: object) -> Cluster:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ready").touch()
        return Cluster(name, folder)

    def down(name: str, **_: object) -> list[str]:
        deleted.append(name)
        return []

    def killed(*_: object, **__: object) -> list[str]:
        raise Killed

    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setattr(engine, "used", lambda: True)
    monkeypatch.setattr(engine, "pid", lambda: 1)
    monkeypatch.setattr(cluster, "program", lambda *_: Path("true"))
    monkeypatch.setattr(cluster, "up", up)
    monkeypatch.setattr(commands, "up", up)
    monkeypatch.setattr(cluster, "down", killed)
    with pytest.raises(Killed), obtain("mine"):
        pass
    monkeypatch.setattr(cluster, "down", down)
    return deleted


def test_the_next_run_deletes_the_cluster_of_one_that_was_killed(left: list[str]) -> None:
    with obtain("mine"):
        assert left == []

    assert left == ["mine"]


def test_what_is_left_of_a_run_that_was_killed_is_removed_though_it_answers(
    left: list[str],
) -> None:
    remove_remains("mine")

    assert left == ["mine"]


@pytest.mark.parametrize("by", ["keep", "make cluster-up"])
def test_a_cluster_stays_once_somebody_wants_it_to(left: list[str], by: str) -> None:
    if by == "keep":
        with obtain("mine", keep=True):
            pass
    else:
        commands.up_command("mine")
    with obtain("mine"):
        pass
    remove_remains("mine")

    assert left == []


def test_a_cluster_that_somebody_asks_for_meanwhile_is_not_deleted_under_them(
    left: list[str],
) -> None:
    with obtain("mine"):
        commands.up_command("mine")

    assert left == []


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(commands.images_command, id="make images"),
        pytest.param(commands.gpu_image, id="make gpu-image"),
        pytest.param(supply_chain.main, id="make supply-chain"),
    ],
)
def test_no_image_is_replaced_nor_built_on_an_engine_that_another_run_may_stop(
    monkeypatch: pytest.MonkeyPatch, build: Callable[[], object]
) -> None:
    waits, built = threading.Event(), threading.Event()

    def building(*_: object, **__: object) -> list[str]:
        built.set()
        return []

    def up(name: str, **_: object) -> Cluster:
        return Cluster(name, Path("config"))

    def no_engine(_: object) -> None:
        building()
        raise ClusterError("no engine")

    monkeypatch.delenv("KUBECONFIG")
    for module in (cluster, commands):
        monkeypatch.setattr(module, "up", up)
    monkeypatch.setattr(sys, "argv", ["supply_chain"])
    monkeypatch.setattr(supply_chain, "print", lambda *_, **__: waits.set(), raising=False)
    monkeypatch.setattr(commands, "_line", lambda _: waits.set())
    monkeypatch.setattr(images, "build_images", building)
    monkeypatch.setattr(images, "build_gpu_image", building)
    monkeypatch.setattr(engine, "engine", no_engine)
    second = threading.Thread(target=build)

    with obtain(keep=True):
        second.start()
        assert waits.wait(_SECONDS)
        assert not built.is_set()
    second.join(_SECONDS)

    assert built.is_set()
