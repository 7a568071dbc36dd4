"""The consoles that commands write to: results on standard output, all else on standard error.

rich is imported when something is written, which is after the cluster has been asked.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def out() -> Console:
    """Return the console for results; it has no colours in a pipe or with NO_COLOR."""
    from rich.console import Console

    _replace_what_cannot_be_shown()
    return Console(highlight=False, markup=False, emoji=False)


def unfailing_out() -> Console:
    """Return the console for results of a command that goes on where they cannot be written."""
    from rich.console import Console

    _replace_what_cannot_be_shown()
    output = cast("IO[str]", _UnfailingOutput(sys.stdout))
    return Console(file=output, highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Return the console for notes and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def show(text: str | Text) -> None:
    """Print a line of results; long ones are not broken, so that a pipe can read them."""
    out().print(text, soft_wrap=True)


def document(text: str) -> None:
    """Write a document, which is to be read again: in UTF-8, whatever the terminal has."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    write(text)


def write(text: str) -> None:
    """Write text as it is, such as a line of a log: rich would replace tabs."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a note that is no result."""
    err().print(text, soft_wrap=True, style="dim")


def _replace_what_cannot_be_shown() -> None:
    """Let results have ? for characters that the encoding of the output does not have.

    Programs write what they like.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


class _UnfailingOutput:
    """The part of a stream that rich uses; after a write has failed, it writes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._discard()

    def _discard(self) -> None:
        # Closing the stream would not do: what it holds back is written again when Python exits,
        # which would then exit with 120.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
