"""Puts what was measured into pages of the docs, between two marks."""

from collections.abc import Iterable, Sequence
from pathlib import Path


def fill(page: Path, section: str, text: str) -> None:
    """Replace what stands between a section's marks; raises ValueError if the page has none."""
    mark, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    before, found, rest = page.read_text().partition(mark)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{page} has no place for what is measured: {mark}{end}")
    page.write_text(f"{before}{mark}\n{text.strip()}\n\n{end}{after}")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, others: str = "---:") -> str:
    """Write a table in Markdown: the first column left, the others as the rule says (right)."""
    rule = "|---|" + f"{others}|" * (len(head) - 1)
    return "\n".join([_row(head), rule, *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
