"""Writes an exception of the user's code for the termination message: type, message, file and line.

Called by supervisor. TensorFlow puts what matters among stacks, node names and counters that differ
from run to run; the same failure has to give the same text, since the operator compares attempts.
Knows TensorFlow's texts, and does not import it.
"""

import re
import traceback
from collections.abc import Iterator

from tftrainer.errors import message_line

_LIMIT = 2000
_TRACEBACK = "Traceback (most recent call last):"
_AUTOGRAPH = "in user code:"
# `ValueError: row 2 is broken`, at the beginning of a line.
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$", re.MULTILINE)
_FILE = re.compile(r'File "([^"]+)", line (\d+)')
# `{{function_node name}}` and `[Op:__inference_call_887] name: `, which have numbers that differ.
_NODE = re.compile(r"\{\{\w+ [^}]*\}\}|\[Op:\w+\].*")
# `(0) INVALID_ARGUMENT:  `, one of several root errors; how many arrive differs.
_NUMBERED = re.compile(r"^\(\d+\) [A-Z_]+:\s*")
# The number of the dataset, and which iterators it is behind.
_IN_DATASET = re.compile(
    r"Error in user-defined function passed to (\w+):\d+ transformation with iterator: \S+: "
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")
_PACKAGES = re.compile(r"/(?:site|dist)-packages/")
_NOT_THE_USERS = re.compile(
    r"^<|__autograph_generated_file|/tftrainer/(?!examples/)"
    r"|/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/)"
    r"|/(?:site|dist)-packages/(?:tensorflow|tf_keras|keras|numpy|google|grpc|tftrainer/(?!examples/))"
)


def summary(error: BaseException) -> str:
    """Return `ValueError: row 2 is broken (/task/task.py, line 12)`."""
    # The coordinator wraps what went wrong with a function's input.
    error = getattr(error, "original_exception", error)
    text = _ADDRESS.sub("", str(error)).strip()
    return f"{_headline(error, text)[:_LIMIT]}{_place(error, text)}"


def _headline(error: BaseException, text: str) -> str:
    name = type(error).__name__
    if text.startswith(_AUTOGRAPH):
        # The exception stands below the frames.
        return text.splitlines()[-1].strip()
    if not type(error).__module__.startswith("tensorflow."):
        return f"{name}: {text or 'no message'}"
    _, found, after = text.partition(_TRACEBACK)
    if found and (raised := _RAISED.search(after)):
        # Python that a worker ran, such as a generator of a dataset.
        return raised[0]
    line = _NUMBERED.sub("", _NODE.sub("", message_line(text)).strip())
    dataset = _IN_DATASET.match(line)
    where = f" (in the function passed to {dataset[1]})" if dataset else ""
    return f"{name}: {_IN_DATASET.sub('', line)}{where}"


def _place(error: BaseException, text: str) -> str:
    """Return the innermost line of the user's code, as ` (/task/task.py, line 12)`.

    The text comes first: it tells of the process in which the user's code ran.
    """
    frames = [(file, int(line)) for file, line in _FILE.findall(text)]
    for known in (frames, list(_frames(error))):
        users = [each for each in known if not _NOT_THE_USERS.search(each[0])]
        # Packages that the user installed come after the task itself.
        for candidates in ([each for each in users if not _PACKAGES.search(each[0])], users):
            if candidates:
                file, line = candidates[-1]
                return f" ({file}, line {line})"
    return ""


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, frame.lineno or 0
