"""The engine outlives the checkout that started it: nothing that it runs may lie in there."""

import subprocess
from pathlib import Path

import pytest

from tools.cluster import engine
from tools.cluster.debian import Toolbox


def test_the_runtime_works_without_the_checkout_that_started_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "run_dir", lambda: tmp_path)
    runc = tmp_path / "usr/sbin/runc"
    runc.parent.mkdir(parents=True)
    runc.write_text('#!/bin/sh\necho "runc $@"\n')
    runc.chmod(0o755)

    wrapper = engine._runtime_wrapper(Toolbox(tmp_path))

    done = subprocess.run([wrapper, "state", "id"], capture_output=True, text=True, check=True)
    assert done.stdout == "runc state id\n"
    assert str(Path(engine.__file__).parent) not in wrapper.read_text()
