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
_LONGEST_LINE = 1500
_KUBELETS_BYTES = 2048
"""How much of a log the kubelet takes at most."""

_NOISE = re.compile(
    r"[IW]\d{4} \d\d:\d\d:\d"  # absl: I0000 00:00:1795334728.140965
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] "  # TensorFlow's C++
    r"|\d\S*( \S+)? (INFO|DEBUG) |(INFO|DEBUG)[: ]"  # Python's logging
    r"|WARNING: All log messages before absl|WARNING:(tensorflow|absl):"
    r"|To enable the following instructions:"
    r"|.*(Unable to register cu|failed call to cuInit)"
    r"|\s*\d+/\S+ (━|\[)"  # progress bars
)
_FATAL = re.compile(r"(?:F\d{4} \S+\s+\d+|\d{4}-\d\d-\d\d \S+: F) (?P<place>\S+)\] (?P<text>.*\S)")
"""TensorFlow's C++ giving up; Python may add its frames, the innermost first."""
_FRAME = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Iteration): ")
_QUALIFIER = re.compile(r"^(?:\w+\.)+(?=\w+(:|$))")
"""The modules before an exception's name: tensorflow.python.framework.errors_impl."""
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/tftrainer/", "<frozen ")

# Where in a graph: `{{function_node name}}`, `[[{{node name}}]]`, `[Op:MatMul] name: `.
_NODE = re.compile(r"\{\{function_node [^}]*\}\} |\[\[.*|\[Op:\w+\].*")
_TRACEBACK = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"

# What TensorFlow puts before the message of an error in a graph, or in a function that it traces.
_AUTOGRAPH = "in user code:"
_HEADINGS = ("Graph execution error:", "root error(s) found.", _AUTOGRAPH)
_LAYER = "Exception encountered when calling layer"
_IN_GRAPH = "[[{{node"
_PLACES = ("Detected at node", "<stack traces unavailable>", "[[", 'File "')


@lru_cache(maxsize=1024)  # each pass looks at all pods again, and their logs seldom change
def error_text(log: str) -> str:
    """Return what a log or a termination message says went wrong, "" if nothing.

    An exception comes first, with the place in the user's code; without one, the end is kept.
    """
    lines = [line for line in _whole_lines(printable(log)) if not _NOISE.match(line)]
    lines = _until_exit(lines)
    frames = [(at, found) for at, line in enumerate(lines) if (found := _FRAME.match(line))]
    if fatal := next(filter(None, map(_FATAL.match, lines)), None):
        said = f"{fatal['text']} ({fatal['place']})"
        return said[:_LINE_LIMIT] + _place([found for _, found in reversed(frames)])
    start = _exception_at(lines, frames[0][0] if frames else None)
    if start is None:
        text = "\n".join(lines).strip()
        return text if len(text) <= LIMIT else "…" + text[-LIMIT + 1 :]
    # One that is indented stands in a message whose beginning is cut off.
    rest = [] if lines[start][0].isspace() else lines[start + 1 :]
    first, rest = _telling_first(lines[start].strip(), [line.rstrip() for line in rest])
    first = _NODE.sub("", _QUALIFIER.sub("", first)).strip()
    if len(first) > _LINE_LIMIT:
        first = first[: _LINE_LIMIT - 1] + "…"
    first += _place([found for _, found in frames])
    rest = [line for line in rest if not line.strip().startswith(_IN_GRAPH)]
    return "\n".join([first, *rest]).strip()[:LIMIT]


def telling_line(text: str) -> str:
    """Return what `error_text` returned as one line: an exception's first, of a log the last."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if len(lines) == 1 or _EXCEPTION.match(lines[0]):
        # The trainer's own messages end with what to do.
        return one_line(lines[0], _LINE_LIMIT)
    whole = one_line(text, LIMIT)
    return whole if len(whole) <= LINE_LIMIT else one_line(lines[-1])


def _whole_lines(log: str) -> list[str]:
    """Return the lines, without one whose beginning the kubelet has cut off."""
    lines = log.splitlines()
    whole = lines[len(lines) > 1 and len(log.encode()) == _KUBELETS_BYTES :]
    # Who writes them chooses how long an expression has to look through them.
    return [line[:_LONGEST_LINE] for line in whole]


def _until_exit(lines: list[str]) -> list[str]:
    """Leave out what finalizers raised when Python exited, because of an exception or after it."""
    ignored = next((at for at, line in enumerate(lines) if line.startswith(_IGNORED)), 0)
    return lines[:ignored] if any(line.strip() for line in lines[:ignored]) else lines


def _exception_at(lines: Sequence[str], first_frame: int | None) -> int | None:
    """Return the line of the exception: that after the last traceback, or the last that reads so.

    A message may hold frames of its own, and the log may begin in the middle of a traceback.
    """
    tracebacks = [at for at, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    began = tracebacks[-1] if tracebacks else first_frame
    if began is not None:
        after = range(began + 1, len(lines))
        ended = next((at for at in after if lines[at][:1].strip()), None)
        if ended is not None:
            return ended
    found = [at for at, line in enumerate(lines) if _EXCEPTION.match(line.strip())]
    return found[-1] if found else None


def _telling_first(first: str, rest: list[str]) -> tuple[str, list[str]]:
    """Return the line that says what went wrong, and what is worth showing below it."""
    if not (first.endswith(_HEADINGS) or _LAYER in first):
        return first, rest
    telling = [line.strip() for line in rest]
    if _AUTOGRAPH in (first.partition(": ")[2], *telling):
        # The exceptions stand below their frames, the innermost last.
        raised = [t for t in telling if _EXCEPTION.match(t) and _LAYER not in t]
        return (raised[-1], []) if raised else (first, rest)
    message = next((t for t in telling if t and not t.startswith(_PLACES)), "")
    kind = first.partition(":")[0]
    return f"{kind}: {message or first.partition(': ')[2]}", []


def _place(frames: Sequence[re.Match[str]]) -> str:
    """Return the last place in the user's code, "" if the log does not reach back so far."""
    own = [f for f in frames if not any(part in f["file"] for part in _LIBRARIES)]
    return f" ({own[-1]['file']}, line {own[-1]['line']})" if own else ""
