"""Builds the documentation as a site (`make docs`); `--check` builds it and keeps nothing.

mkdocs wants all pages in one folder, while ours also lie beside the code and link to it. So the
pages and the files that they link to are copied into a folder, with the paths that they have here:
every relative link leads to the same file as on GitHub. mkdocs checks the links and anchors.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from markdown import Markdown
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "mkdocs.yml"
SITE = ROOT / "site"
OUTSIDE_DOCS = (
    "README.md",
    "CHANGELOG.md",
    "CHANGELOG-builds.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "charts/tftraining-operator/README.md",
    "tests/contract/README.md",
    "trainer_image/README.md",
)
"""Pages that lie outside of docs."""

_FENCE = re.compile(r"^( *)```.*?^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
_COUNTED = ("h1", "h2", "h3", "h4", "li", "pre", "table", "tr")


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's links, other than those in code."""
    yield from _LINK.findall(_CODE.sub("", _FENCE.sub("", text)))


def pages() -> list[Path]:
    """Return the pages of the site."""
    return [*(ROOT / page for page in OUTSIDE_DOCS), *sorted((ROOT / "docs").rglob("*.md"))]


def copy_pages(folder: Path) -> None:
    """Copy the pages, and the files that they link to."""
    found = set(pages())
    for page in pages():
        targets = (link.partition("#")[0] for link in links(page.read_text()) if ":" not in link)
        found |= {(page.parent / target).resolve() for target in targets if target}
    for file in found:
        if file.is_file():
            copy = folder / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


class _Resources(HTMLParser):
    """Collects what a browser would load from elsewhere to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get(_LOADED.get(tag, "")) or ""
        if re.match(r"(?:\w+:)?//", target):
            self.outside.append(target)


def outside_resources(html: str) -> list[str]:
    """Return the addresses elsewhere from which a browser would load parts of a page."""
    parser = _Resources()
    parser.feed(html)
    return parser.outside


def differences(text: str) -> list[str]:
    """Return what a page has more or less of on GitHub than on the site, such as items of lists.

    The two read Markdown differently: a list right behind a line of text is none on the site.
    """
    github = MarkdownIt("commonmark").enable("table").render(text)
    extensions = ["pymdownx.superfences", "sane_lists", "tables"]
    here = Markdown(extensions=extensions).convert(text)
    counted = [(tag, _count(github, tag), _count(here, tag)) for tag in _COUNTED]
    return [
        f"{tag}: {there} on GitHub, {ours} here" for tag, there, ours in counted if there != ours
    ]


def _count(html: str, tag: str) -> int:
    return len(re.findall(rf"<{tag}[ >]", html))


def build(site: Path) -> list[str]:
    """Build the site into a folder; return what is wrong with it."""
    with tempfile.TemporaryDirectory() as temporary:
        copy_pages(Path(temporary))
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", CONFIG, "-d", site],
            cwd=ROOT,
            env={**os.environ, "TFTRAINING_SITE_PAGES": temporary, "NO_MKDOCS_2_WARNING": "1"},
            check=False,
            capture_output=True,
            text=True,
        )
    said = (done.stdout + done.stderr).splitlines()
    problems = [line for line in said if line and not line.startswith("INFO")]
    if done.returncode:
        problems.append(f"mkdocs failed with {done.returncode}")
    for page in pages():
        different = differences(page.read_text())
        problems += [f"{page.relative_to(ROOT)}: {difference}" for difference in different]
    for html in sorted(site.rglob("*.html")):
        loaded = outside_resources(html.read_text())
        problems += [f"{html.relative_to(site)} loads {address}" for address in loaded]
    return problems


def main() -> int:
    """Build the site; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--check", action="store_true", help="build it and keep nothing")
    if parser.parse_args().check:
        with tempfile.TemporaryDirectory() as temporary:
            problems = build(Path(temporary) / "site")
    else:
        problems = build(SITE)
        print(f"open {SITE / 'index.html'}, or, to search in it: python3 -m http.server -d site")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
