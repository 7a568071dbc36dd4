"""A verification that accepts what it must refuse is an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.supply_chain import Registry, SupplyChainError


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    programs = {name: Path(shutil.which(name) or "") for name in ("true", "cat")}
    return Registry("127.0.0.1:1", tmp_path, programs)


def test_what_was_accepted_is_an_error(registry: Registry) -> None:
    with pytest.raises(SupplyChainError, match="accepted: true verify an-image"):
        registry.refused("true", "verify", "an-image")
    assert registry.shown == []


def test_what_was_refused_is_shown_with_the_reason(registry: Registry) -> None:
    assert "No such file" in registry.refused("cat", "missing")
    (shown,) = registry.shown
    assert shown.startswith("$ cat missing\n")
    assert shown.endswith("No such file or directory")
