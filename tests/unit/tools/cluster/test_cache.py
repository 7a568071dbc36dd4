"""The cache names folders by the digest of their inputs and never returns an incomplete one."""

from pathlib import Path

import pytest

from tools.cluster.cache import cache_dir, digest, kept, kept_all


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_variable_names_the_cache_folder(cache: Path) -> None:
    assert cache_dir() == cache


def test_without_the_variable_the_cache_is_in_the_xdg_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TFTRAINING_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")

    assert cache_dir() == Path("/xdg/tftraining")


def test_the_digest_separates_its_parts() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_a_folders_digest_changes_with_a_name_a_mode_or_a_content(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "one"
    file.write_text("content")
    seen = {digest(folder)}

    file.chmod(0o755)
    seen.add(digest(folder))
    file.write_text("changed")
    seen.add(digest(folder))
    file.rename(folder / "two")
    seen.add(digest(folder))

    assert len(seen) == 4


@pytest.mark.parametrize("name", ["__pycache__", ".ruff_cache", ".mypy_cache"])
def test_caches_of_tools_do_not_change_the_digest(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    (folder / "package" / name).mkdir(parents=True)
    before = digest(folder)
    (folder / "package" / name / "file").write_text("cached")

    assert digest(folder) == before


def test_a_folder_is_filled_once() -> None:
    calls: list[Path] = []

    def make(place: Path) -> None:
        calls.append(place)
        (place / "file").write_text("made")

    first, second = kept("kind", "name", "key", make), kept("kind", "name", "key", make)

    assert first == second
    assert (first / "file").read_text() == "made"
    assert len(calls) == 1


def test_a_folder_whose_filling_failed_is_filled_again() -> None:
    def fail(place: Path) -> None:
        (place / "half").write_text("")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        kept("kind", "name", "key", fail)
    made = kept("kind", "name", "key", lambda place: (place / "whole").touch())

    assert [path.name for path in made.iterdir()] == ["whole"]


def test_what_is_made_together_is_made_once_and_only_what_is_missing(cache: Path) -> None:
    made: list[set[str]] = []

    def make(folders: dict[str, Path]) -> None:
        made.append({*folders})
        for name, folder in folders.items():
            (folder / "file").write_text(name)

    kept_all("programs", {"a": "1"}, make)
    for _ in range(2):
        places = kept_all("programs", {"a": "1", "b": "1", "c": "2"}, make)

    assert made == [{"a"}, {"b", "c"}]
    assert places["c"] == cache / "programs/c-2"
    assert {name: (place / "file").read_text() for name, place in places.items()} == {
        "a": "a",
        "b": "b",
        "c": "c",
    }


def test_of_what_is_made_together_nothing_is_kept_if_it_fails(cache: Path) -> None:
    def fail(folders: dict[str, Path]) -> None:
        (folders["a"] / "file").touch()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        kept_all("programs", {"a": "1", "b": "1"}, fail)

    assert not [*(cache / "programs").iterdir()]
    assert not [*(cache / "scratch").iterdir()]
