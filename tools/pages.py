"""Writes measurements and generated tables into the docs, between two marks of a page.

Also reads the code blocks of a page, for the tests that run them.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def fill(page: Path, section: str, text: str) -> None:
    """Replace the text between a section's marks. Raises ValueError if the page has no marks."""
    page.write_text(filled(page, section, text))


def filled(page: Path, section: str, text: str) -> str:
    """Return a page with another text between a section's marks. Raises ValueError as `fill`."""
    mark, end = _marks(section)
    before, _, after = _parts(page, section)
    return f"{before}{mark}\n{text.strip()}\n\n{end}{after}"


def section(page: Path, name: str) -> str:
    """Return the text between a section's marks. Raises ValueError if the page has no marks."""
    return _parts(page, name)[1]


def code_blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def _parts(page: Path, section: str) -> tuple[str, str, str]:
    mark, end = _marks(section)
    before, found, rest = page.read_text().partition(mark)
    text, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{page} lacks the marks of the section: {mark}{end}")
    return before, text, after


def _marks(section: str) -> tuple[str, str]:
    return f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, others: str = "---:") -> str:
    """Return a Markdown table; the first column is aligned left, the others by `others`."""
    rule = "|---|" + f"{others}|" * (len(head) - 1)
    return "\n".join([_row(head), rule, *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
