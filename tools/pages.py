"""Writes measurements and generated tables into the docs, between two marks of a page."""

from collections.abc import Iterable, Sequence
from pathlib import Path


def fill(page: Path, section: str, text: str) -> None:
    """Replace the text between a section's marks. Raises ValueError if the page has no marks."""
    page.write_text(filled(page, section, text))


def filled(page: Path, section: str, text: str) -> str:
    """Return a page with another text between a section's marks. Raises ValueError as `fill`."""
    mark, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    before, found, rest = page.read_text().partition(mark)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{page} lacks the marks of the section: {mark}{end}")
    return f"{before}{mark}\n{text.strip()}\n\n{end}{after}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, others: str = "---:") -> str:
    """Return a Markdown table; the first column is aligned left, the others by `others`."""
    rule = "|---|" + f"{others}|" * (len(head) - 1)
    return "\n".join([_row(head), rule, *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
