"""An installation that the user's cluster had before is neither replaced nor deleted."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from e2e import demo, install, runbook
from e2e.platform_faults import no_room
from e2e.scenarios.space import new_space
from e2e.screenshots import __main__ as screenshots
from tools.cluster import Cluster, ClusterError, NoClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


class Calls(list[str]):
    """What was called, and what it answers to those that ask."""

    def __init__(self, there: Mapping[str, str], failing: str = "never") -> None:
        self.there, self.failing = there, failing

    def __call__(self, *arguments: object, **_: object) -> str:
        words = " ".join(map(str, arguments[1:]))
        self.append(words)
        if words.startswith(self.failing):
            raise ClusterError("failed")
        return next((said for asked, said in self.there.items() if words.startswith(asked)), "")

    @property
    def changes(self) -> list[str]:
        """Those that change the cluster."""
        asking = ("list", "get")
        return [words for words in self if not words.startswith(asking)]


def _method(calls: Calls) -> Callable[..., str]:
    def kubectl(cluster: Cluster, *arguments: object, **more: object) -> str:
        return calls(cluster, *arguments, **more)

    return kubectl


def watched(monkeypatch: pytest.MonkeyPatch, calls: Calls) -> Calls:
    monkeypatch.setattr(install, "helm", calls)
    monkeypatch.setattr(Cluster, "kubectl", _method(calls))
    monkeypatch.setattr(install, "build_images", lambda **_: [])
    return calls


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("list --all-namespaces", "tftraining"),
        ("get crd", "customresourcedefinition.apiextensions.k8s.io/tftrainingjobs.tftraining.dev"),
        ("get crd", "namespace/tftraining-system"),
        ("get crd", "namespace/demo"),
    ],
)
def test_a_given_cluster_with_an_installation_is_refused_and_not_changed(
    monkeypatch: pytest.MonkeyPatch, asked: str, name: str
) -> None:
    calls = watched(monkeypatch, Calls({asked: f"{name}\n"}))
    cluster = Cluster("given", Path("config"), given=True)

    with (
        pytest.raises(NoClusterError, match=f"{name}, which would be replaced"),
        install.installed(cluster, lambda _: None, "demo"),
    ):
        pytest.fail("installed")

    assert calls.changes == []
    assert "namespace/demo" in calls[-1]


@pytest.mark.parametrize("given", [True, False])
def test_what_a_run_installed_goes_again_though_it_failed(
    monkeypatch: pytest.MonkeyPatch, *, given: bool
) -> None:
    # In a cluster of ours, an interrupted run leaves what the next one replaces.
    there = {} if given else {"list": "tftraining", "get": "namespace/tftraining-system"}
    calls = watched(monkeypatch, Calls(there, failing="upgrade"))
    cluster = Cluster("mine", Path("config"), given=given)

    with pytest.raises(ClusterError, match="failed"), install.installed(cluster, lambda _: None):
        pytest.fail("installed")

    assert [words.split()[0] for words in calls.changes[-3:]] == ["uninstall", "delete", "delete"]


def test_a_node_that_was_cordoned_before_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    free = "get nodes --field-selector=spec.unschedulable=false"
    calls = watched(monkeypatch, Calls({free: "node/b", "get nodes": "node/a\nnode/b"}))

    with no_room(Cluster("mine", Path("config"))):
        assert calls.changes == ["cordon node/b"]

    assert calls.changes == ["cordon node/b", "uncordon node/b"]


@pytest.mark.parametrize(("program", "namespace"), [(runbook, "research"), (screenshots, "vision")])
def test_a_namespace_of_the_users_is_neither_taken_nor_deleted(
    monkeypatch: pytest.MonkeyPatch, program: ModuleType, namespace: str
) -> None:
    own = f"get crd/{install.CRD} namespace/{install.NAMESPACE} namespace/{namespace} "
    calls = watched(monkeypatch, Calls({own: f"namespace/{namespace}\n"}))

    def ends(*_: object) -> NoReturn:
        raise ClusterError("it would begin")

    monkeypatch.setattr(Cluster, "tool", lambda *_: Path("tool"))
    for name, replaced in {
        "obtain": lambda **_: nullcontext(Cluster("given", Path("config"), given=True)),
        **dict.fromkeys(("helm", "program"), lambda *_: ""),
        **dict.fromkeys(("prometheus", "browsing"), ends),
    }.items():
        monkeypatch.setattr(program, name, replaced, raising=False)

    assert program.main() == 1

    assert calls.changes == []


def test_all_else_goes_though_helm_cannot_remove_the_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = watched(monkeypatch, Calls({}, failing="uninstall"))

    with pytest.raises(ClusterError, match="failed"):
        install.uninstall(Cluster("given", Path("config"), given=True))

    assert [words.split()[:2] for words in calls] == [
        ["uninstall", install.RELEASE],
        ["delete", "crd"],
        ["delete", "namespace"],
    ]


def test_a_namespace_of_a_scenario_goes_though_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = watched(monkeypatch, Calls({}))

    with (
        pytest.raises(AssertionError),
        new_space(Cluster("given", Path("config"), given=True)) as space,
    ):
        raise AssertionError

    assert calls[-1].startswith(f"delete namespace {space.name}")


def test_a_namespace_goes_though_it_was_interrupted_while_it_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server may have made it by then."""
    calls = watched(monkeypatch, Calls({}, failing="apply"))
    cluster = Cluster("given", Path("config"), given=True)

    with pytest.raises(ClusterError):
        demo._train(cluster)
    with pytest.raises(ClusterError), new_space(cluster):
        pytest.fail("begun")

    _, of_demo, _, of_scenario = calls
    assert of_demo.startswith(f"delete namespace {demo.NAMESPACE} --ignore-not-found")
    assert of_scenario.startswith("delete namespace scenario-")
    assert "--ignore-not-found" in of_scenario
