"""The consoles that commands write to: results on standard output, all else on standard error.

rich is imported when something is written, which is after the cluster has been asked.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def out() -> Console:
    """Return the console for results; it has no colours in a pipe or with NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Return the console for notes and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def show(text: str | Text) -> None:
    """Print a line of results; long ones are not broken, so that a pipe can read them."""
    out().print(text, soft_wrap=True)


def write(text: str) -> None:
    """Write text as it is, such as a document or a line of a log: rich would replace tabs."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a note that is no result."""
    err().print(text, soft_wrap=True, style="dim")
