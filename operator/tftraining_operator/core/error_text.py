"""What the end of a container's log says went wrong; core/cause calls it.

Where a container leaves no message, the kubelet takes the last lines of its log. TensorFlow
fills these with notes of its own, and a traceback puts what the user needs last.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from tftraining_operator.core.text import LINE_LIMIT, one_line, printable

LIMIT = 1500
"""Characters of one message; those of `status` all have to fit into one object."""

_LINE_LIMIT = 700

_NOISE = re.compile(
    r"[IW]\d{4} \d\d:\d\d:\d"  # absl: I0000 00:00:1795334728.140965
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] "  # TensorFlow's C++
    r"|\d\S*( \S+)? (INFO|DEBUG) |(INFO|DEBUG)[: ]"  # Python's logging
    r"|WARNING: All log messages before absl|WARNING:(tensorflow|absl):"
    r"|To enable the following instructions:"
    r"|.*(Unable to register cu|failed call to cuInit)"
    r"|\s*\d+/\S+ (━|\[)"  # progress bars
)
_FRAME = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Iteration): ")
_QUALIFIER = re.compile(r"^(?:\w+\.)+(?=\w+(:|$))")
"""The modules before an exception's name: tensorflow.python.framework.errors_impl."""
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/tftrainer/", "<frozen ")

# What TensorFlow puts before the message of an error in a graph.
_HEADINGS = ("Graph execution error:", "root error(s) found.")
_PLACES = ("Detected at node", "<stack traces unavailable>", "[[")


@lru_cache(maxsize=1024)  # each pass looks at all pods again, and their logs seldom change
def error_text(log: str) -> str:
    """Return what a log or a termination message says went wrong, "" if nothing.

    An exception comes first, with the place in the user's code; without one, the end is kept.
    """
    lines = [line for line in printable(log).splitlines() if not _NOISE.match(line)]
    frames = [(at, found) for at, line in enumerate(lines) if (found := _FRAME.match(line))]
    start = _exception_at(lines, frames[-1][0] if frames else None)
    if start is None:
        text = "\n".join(lines).strip()
        return text if len(text) <= LIMIT else "…" + text[-LIMIT + 1 :]
    first, rest = _telling_first([line.rstrip() for line in lines[start:]])
    first = _QUALIFIER.sub("", first)
    if len(first) > _LINE_LIMIT:
        first = first[: _LINE_LIMIT - 1] + "…"
    first += _place([found for at, found in frames if at < start])
    return "\n".join([first, *rest]).strip()[:LIMIT]


def telling_line(text: str) -> str:
    """Return what `error_text` returned as one line: an exception's first, of a log the last."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if _EXCEPTION.match(lines[0]):
        return one_line(lines[0])
    whole = one_line(text, LIMIT)
    return whole if len(whole) <= LINE_LIMIT else one_line(lines[-1])


def _exception_at(lines: Sequence[str], last_frame: int | None) -> int | None:
    """Return the line of the exception: that after the last frame, or the last that reads so."""
    if last_frame is not None:
        after = range(last_frame + 1, len(lines))
        return next((at for at in after if lines[at][:1].strip()), None)
    found = [at for at, line in enumerate(lines) if _EXCEPTION.match(line)]
    return found[-1] if found else None


def _telling_first(lines: list[str]) -> tuple[str, list[str]]:
    first, *rest = lines
    if not first.endswith(_HEADINGS):
        return first, rest
    telling = (line.strip() for line in rest)
    message = next((t for t in telling if t and not t.startswith(_PLACES)), "")
    kind = first.partition(":")[0]
    return f"{kind}: {message or first.partition(': ')[2]}", []


def _place(frames: Sequence[re.Match[str]]) -> str:
    """Return the last place in the user's code, "" if the log does not reach back so far."""
    own = [f for f in frames if not any(part in f["file"] for part in _LIBRARIES)]
    return f" ({own[-1]['file']}, line {own[-1]['line']})" if own else ""
