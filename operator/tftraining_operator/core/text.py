"""Makes text from users' containers and templates safe to log, store and print.

Whoever writes a termination message, an exception or an admission policy may put terminal escape
sequences and newlines into it; in a log these forge lines, in a terminal they hide them.
"""

import re

LINE_LIMIT = 300
"""Characters of foreign text in one line of a log."""

_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours and cursor movements
    # Strings such as window titles; one without an end must not hide the lines that follow.
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
)
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, and those that change the direction of text."""
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, as a cut or malformed JSON leaves it: no encoding takes it."""


def printable(text: str) -> str:
    """Return text without escape sequences and control characters but newlines and tabs."""
    if text.isprintable():
        return text
    text = _LINE_END.sub("\n", _ESCAPE_SEQUENCE.sub("", text))
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as 1 worker or 2 workers."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Return printable text as one line of at most `limit` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
