"""Where `tftj convert` writes what it converts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tftraining.cli import conversion
from tftraining.cli.convert import directions
from tftraining.errors import ExitCode, InputError

from tests.unit.cli.conversions import a_replica, a_tfjob

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with files of the same names."""
    for name in ("a/job.yaml", "b/job.yaml", "b/c/job.yaml", "other.yaml"):
        path = tmp_path / "given" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(a_tfjob(Worker=a_replica())))
    return tmp_path / "given"


def converted(folder: Path | None, *paths: Path) -> ExitCode:
    sources = list(conversion.from_files([str(path) for path in paths]))
    return conversion.convert(sources, folder, directions.to_tftrainingjobs(), quiet=True)


def test_a_folder_keeps_its_form(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert converted(out, given, given / "b/c") is ExitCode.SUCCEEDED
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*.yaml"))
    assert written == ["a/job.yaml", "b/c/job.yaml", "b/job.yaml", "job.yaml", "other.yaml"]


def test_two_sources_for_one_file_are_refused_before_anything_is_written(
    given: Path, tmp_path: Path
) -> None:
    out, first, second = tmp_path / "out", given / "a/job.yaml", given / "b/job.yaml"
    with pytest.raises(InputError) as refused:
        converted(out, given / "other.yaml", first, second)
    assert str(refused.value) == (
        f"{first} and {second} would both be written to {out}/job.yaml: rename one of them, or"
        " write them into two folders"
    )
    assert not out.exists()


def test_standard_output_takes_both(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert converted(None, given / "a/job.yaml", given / "b/job.yaml") is ExitCode.SUCCEEDED
    assert len(list(yaml.safe_load_all(capsys.readouterr().out))) == 2


def test_a_file_in_the_place_of_the_folder_is_told(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("kept")
    with pytest.raises(InputError) as refused:
        converted(out, given)
    assert str(refused.value).startswith(f"--output: cannot write {out}/")
    assert out.read_text() == "kept"
