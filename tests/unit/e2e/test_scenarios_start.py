"""What has begun for the scenarios ends, also if their start fails; then none runs unnoticed."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from e2e.scenarios import conftest
from tools.cluster import ClusterError, NoClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator


def start(monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> tuple[Any, list[str]]:
    """Begin a session whose installation fails with this error; return it and what happened."""
    done: list[str] = []

    @contextmanager
    def obtain(**_: object) -> Iterator[str]:
        try:
            yield "cluster"
        finally:
            done.append("cluster gone")

    @contextmanager
    def installed(*_: object) -> Iterator[None]:
        if error is not None:
            raise error
        yield

    capture = SimpleNamespace(global_and_fixture_disabled=nullcontext)
    plugins = SimpleNamespace(getplugin=lambda _: capture)
    option = SimpleNamespace(collectonly=False)
    config = SimpleNamespace(stash=pytest.Stash(), option=option, pluginmanager=plugins)
    monkeypatch.setattr(conftest, "obtain", obtain)
    monkeypatch.setattr(conftest, "installed", installed)
    monkeypatch.setattr(conftest, "seconds_left", lambda: 3600.0)
    session: Any = SimpleNamespace(config=config)
    try:
        conftest.pytest_sessionstart(session)
    except BaseException as raised:  # noqa: BLE001 - what it raises is asked for
        done.append(type(raised).__name__)
    return session, done


def test_the_cluster_stays_until_the_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    session, done = start(monkeypatch, None)
    assert done == []

    conftest.pytest_sessionfinish(session)
    assert done == ["cluster gone"]


def test_scenarios_are_skipped_by_name_where_no_cluster_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, done = start(monkeypatch, NoClusterError("it has an operator"))
    conftest.pytest_sessionfinish(session)

    assert session.config.stash[conftest._NO_CLUSTER] == "it has an operator"
    assert done == ["cluster gone"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(ClusterError("helm failed"), "Exit"), (KeyboardInterrupt(), "KeyboardInterrupt")],
)
def test_a_start_that_fails_ends_the_run_and_deletes_the_cluster(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, raised: str
) -> None:
    _, done = start(monkeypatch, error)

    assert done == ["cluster gone", raised]
