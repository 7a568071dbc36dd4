"""Every program is locked by a go.mod that names its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.cluster import binaries
from tools.cluster.binaries import (
    PROGRAMS_DIR,
    SOURCES,
    binary,
    build_together,
    of_machine,
    output_name,
    version,
)
from tools.cluster.node_image import programs
from tools.cluster.shell import ClusterError
from tools.cluster.wheels import platforms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tools.cluster.shell import Say


@pytest.mark.parametrize("name", SOURCES)
def test_every_program_is_locked(name: str) -> None:
    source = SOURCES[name]

    assert (PROGRAMS_DIR / source.family / "go.mod").is_file()
    if source.module:
        assert (PROGRAMS_DIR / source.family / "go.sum").is_file()
        assert version(source.family, source.module).startswith("v")


def test_an_unknown_program_is_refused_with_the_known_names() -> None:
    with pytest.raises(ClusterError, match="kubectl"):
        binary("kubecuttle")


def test_wheels_for_the_newest_c_library_come_first() -> None:
    tags = platforms("amd64")

    assert tags[0] == "manylinux_2_36_x86_64"
    assert tags[-1] == "linux_x86_64"


@pytest.mark.parametrize(
    ("name", "output"),
    [("kubelet", "kubelet"), ("etcd", "server"), ("pause", "pause"), ("coredns", "coredns")],
)
def test_go_names_a_program_after_its_package(name: str, output: str) -> None:
    assert output_name(SOURCES[name]) == output


def test_a_family_is_built_by_one_go_build_and_what_is_cached_is_not_built_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built: list[list[str]] = []
    shares: list[float] = []

    def go_build(folders: Mapping[str, Path], compiled: Say) -> None:
        built.append([*folders])
        for name, folder in folders.items():
            (folder / name).touch()
            compiled(name)

    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path))
    monkeypatch.setattr(binaries, "_go_version", lambda: "go1")
    monkeypatch.setattr(binaries, "_go_build", go_build)
    monkeypatch.setattr(binaries, "_count_packages", len)

    build_together(["kubelet", "ctr", "etcd", "local-path-provisioner"], shares.append)
    build_together(["kubelet", "kubectl", "kind"], shares.append)
    build_together(["kubelet"], shares.append)

    assert built == [
        ["kubelet", "etcd"],
        ["ctr"],
        ["local-path-provisioner"],
        ["kubectl"],
        ["kind"],
    ]
    assert shares == [0.25, 0.5, 0.75, 1.0, 0.5, 1.0]
    assert binary("kubelet").is_file()
    assert (tmp_path / "bin/kind").is_file()


def test_nothing_is_built_for_a_node_that_it_can_do_without() -> None:
    assert {SOURCES[name].family for name in programs()} == {"kubernetes", "containerd", "pause"}


@pytest.mark.parametrize(("said", "fits"), [("v1.36.9", True), ("v1.12.0", False)])
def test_the_machines_own_client_is_asked_once_for_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, *, fits: bool
) -> None:
    client, asked = tmp_path / "kubectl", tmp_path / "asked"
    client.write_text(f"#!/bin/sh\necho asked >> {asked}\necho Client Version: {said}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    found = {of_machine("kubectl") for _ in range(3)}

    assert found == {client if fits else None}
    assert asked.read_text().splitlines() == ["asked"]
