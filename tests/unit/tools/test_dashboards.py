"""The chart has the dashboards that there are, and no others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.dashboards import __main__ as dashboards
from tools.dashboards.panels import DASHBOARDS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FILES = {f"{each.name}.json" for each in DASHBOARDS}


def test_one_that_has_another_name_now_does_not_stay_in_the_chart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["dashboards", *arguments])
        return dashboards.main()

    monkeypatch.setattr(dashboards, "FOLDER", tmp_path)
    former = tmp_path / "former.json"

    assert run() == 0
    former.touch()
    assert run("--check") == 1
    assert capsys.readouterr().err == f"{former} is not up to date; run `make manifests`\n"
    assert run() == 0
    assert run("--check") == 0
    assert {path.name for path in tmp_path.iterdir()} == FILES
