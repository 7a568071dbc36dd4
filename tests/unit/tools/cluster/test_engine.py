"""The engine outlives the checkout that started it: nothing that it runs may lie in there."""

import subprocess
from pathlib import Path

import pytest

from tools.cluster import NoClusterError, engine
from tools.cluster.debian import Toolbox
from tools.cluster.machine import Machine


def test_the_runtime_works_without_the_checkout_that_started_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "run_dir", lambda: tmp_path)
    box = tmp_path / "a user's cache"
    runc = box / "usr/sbin/runc"
    runc.parent.mkdir(parents=True)
    runc.write_text('#!/bin/sh\necho "runc $@"\n')
    runc.chmod(0o755)

    wrapper = engine._runtime_wrapper(Toolbox(box))

    done = subprocess.run([wrapper, "state", "id"], capture_output=True, text=True, check=True)
    assert done.stdout == "runc state id\n"
    assert str(Path(engine.__file__).parent) not in wrapper.read_text()


def test_a_machine_that_cannot_run_an_engine_has_no_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(
        root=False, debian="", cgroup_v1=False, sys_resource=True, architecture="amd64"
    )
    monkeypatch.setattr(engine, "look", lambda: machine)
    monkeypatch.setattr(engine, "pid", lambda: None)
    monkeypatch.setattr(engine, "succeeds", lambda *_, **__: False)

    with pytest.raises(NoClusterError, match="requires root and Debian"):
        engine.engine(lambda _line: None)
