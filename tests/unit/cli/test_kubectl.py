"""What `tftj tensorboard` has the user's kubectl do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining.cli.kubectl import Kubectl

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that gets the arguments of a kubectl that answers with an empty object."""
    said, program = tmp_path / "asked", tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\necho "{{}}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return said


def test_it_is_told_namespace_and_context(asked: Path) -> None:
    Kubectl.find("team-a", "prod").get("pod", "x")
    assert asked.read_text() == "--context=prod --namespace=team-a get pod x --output=json\n"


def test_without_them_it_uses_its_own(asked: Path) -> None:
    Kubectl.find(None, None).get("pod", "x")
    assert asked.read_text() == "get pod x --output=json\n"
