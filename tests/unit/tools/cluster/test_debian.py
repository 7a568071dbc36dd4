"""The toolbox has all programs of an engine, whichever packages they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.cluster import debian
from tools.cluster.debian import Toolbox, toolbox
from tools.cluster.machine import Machine


@pytest.mark.parametrize(
    ("release", "more"), [("bookworm", set[str]()), ("trixie", {"docker-cli"})]
)
def test_since_debian_13_the_client_is_asked_for_too(
    monkeypatch: pytest.MonkeyPatch, release: str, more: set[str]
) -> None:
    asked: list[str] = []

    def extracted(_name: str, packages: tuple[str, ...], _say: object) -> Toolbox:
        asked.extend(packages)
        return Toolbox(Path("/toolbox"))

    machine = Machine(
        root=True, debian=release, cgroup_v1=False, sys_resource=True, architecture="amd64"
    )
    monkeypatch.setattr(debian, "extracted", extracted)
    monkeypatch.setattr(debian, "look", lambda: machine, raising=False)

    toolbox(lambda _: None)

    assert {*asked} == {*debian._TOOLS, *more}


def test_a_machine_that_has_every_program_asks_apt_for_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """apt-get takes a download of nothing for an error."""
    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path))
    monkeypatch.setattr(debian, "_lacking", lambda _: list[str]())
    monkeypatch.setattr(debian, "run", lambda *_, **__: pytest.fail("apt is called"))

    box = debian.extracted("toolbox", ("bash",), lambda _: None)

    assert box.tool("sh").exists()
