"""The documentation as a site shows what GitHub shows, and loads nothing from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools import site

if TYPE_CHECKING:
    from pathlib import Path


def test_pages_keep_their_paths_and_bring_the_files_that_they_link_to(tmp_path: Path) -> None:
    site.copy_pages(tmp_path)
    for path in ("README.md", "docs/guide/export.md", "examples/serving/kserve.yaml"):
        assert (tmp_path / path).read_text() == (site.ROOT / path).read_text()
    assert not (tmp_path / "operator").exists()


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<script src="https://unpkg.com/shim"></script>', ["https://unpkg.com/shim"]),
        ('<link href="//fonts.example.com/a.css" rel="stylesheet">', ["//fonts.example.com/a.css"]),
        ('<img src="http://example.com/a.png">', ["http://example.com/a.png"]),
        ('<a href="https://kueue.sigs.k8s.io">Kueue</a><img src="a.png"><script>1</script>', []),
    ],
)
def test_what_a_browser_loads_from_elsewhere_is_found(html: str, expected: list[str]) -> None:
    assert site.outside_resources(html) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A line:\n- an item\n- another\n", ["li: 2 on GitHub, 0 here"]),
        ("1. one\n   - within\n", ["li: 2 on GitHub, 1 here"]),
        ("A line:\n\n- an item\n\n| a | b |\n|---|---|\n| 1 | `x` |\n", []),
        ("```yaml\na: 1\n```\n\n    make docs\n", []),
    ],
)
def test_markdown_that_the_site_reads_differently_is_found(text: str, expected: list[str]) -> None:
    assert site.differences(text) == expected
