"""Logs are followed line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tftraining.cli.local.logs import Logs

if TYPE_CHECKING:
    from pathlib import Path


def test_only_new_and_complete_lines_are_shown(tmp_path: Path) -> None:
    path, logs = tmp_path / "chief.log", Logs()
    path.write_text("of an earlier run\n")
    logs.follow("chief-0", path)
    logs.follow("absent", tmp_path / "absent.log")
    assert list(logs.new_lines()) == []
    with path.open("ab") as file:
        file.write(b"1/9\b\b\r9/9\r\none\r\ntw")
        file.flush()
        assert list(logs.new_lines()) == [("chief-0", "9/9"), ("chief-0", "one")]
        file.write(b"o \xff\n")
        file.flush()
        assert list(logs.new_lines()) == [("chief-0", "two \ufffd")]
    assert list(logs.new_lines()) == []
