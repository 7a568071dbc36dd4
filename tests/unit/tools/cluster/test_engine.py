"""The engine outlives the checkout that started it: nothing that it runs may lie in there."""

import subprocess
import time
from pathlib import Path

import pytest

from tools.cluster import NoClusterError, engine
from tools.cluster.debian import Toolbox
from tools.cluster.engine import Engine
from tools.cluster.machine import Machine, look


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


def test_an_engine_that_takes_connections_and_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\nexec sleep 20\n")
    client.chmod(0o755)
    monkeypatch.setattr(engine, "_ANSWER_SECONDS", 0.2, raising=False)
    began = time.monotonic()

    assert not engine._answers(
        Engine({"PATH": f"{tmp_path}:/usr/bin:/bin"}, ours=True, machine=look())
    )
    assert time.monotonic() - began < 10
