"""Writes an exception of the user's code for the termination message: type, message, file and line.

TensorFlow puts what matters among stacks, node names and counters that differ from run to run; the
same failure has to give the same text, since the operator compares attempts. Knows TensorFlow's
texts, and does not import it.
"""

import re
import textwrap
import traceback
from collections.abc import Iterator

from tftrainer.errors import message_line

_LIMIT = 2000
_TRACEBACK = "Traceback (most recent call last):"
# What AutoGraph and Keras write around the exception of what they call, each inside the other.
_AUTOGRAPH = "in user code:"
_LAYER = "Exception encountered when calling "
_ARGUMENTS = "Call arguments received by "
_WRAPPED = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.DOTALL)
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
    return f"{headline(error)}{_place(error, str(error))}"


def headline(error: BaseException) -> str:
    """Return `ValueError: row 2 is broken`."""
    text = _ADDRESS.sub("", str(error)).strip()
    name, text, layer = _unwrapped(type(error).__name__, text)
    return f"{_sentence(error, name, text)[:_LIMIT]}{layer}"


def _unwrapped(name: str, text: str) -> tuple[str, str, str]:
    """Return type and message of the innermost exception, and ` (in layer 'c' (type Conv1D))`."""
    layer = ""
    while True:
        if text.startswith(_AUTOGRAPH):
            lines = textwrap.dedent(text.partition("\n")[2]).splitlines()
            # The exception stands below the frames.
            below = [at for at, line in enumerate(lines) if _is_below_frames(line)]
            inner = _WRAPPED.fullmatch("\n".join(lines[below[0] :]).strip()) if below else None
            if inner is None:
                return name, lines[-1].strip() if lines else text, layer
            name, text = inner[1], (inner[2] or "").strip()
        elif text.startswith(_LAYER):
            first, _, rest = text.partition("\n")
            layer = f" (in {first.removeprefix(_LAYER).strip(' .')})"
            text = rest.partition(_ARGUMENTS)[0].strip()
        else:
            return name, text, layer


def _is_below_frames(line: str) -> bool:
    return bool(line[:1].strip()) and not line.startswith('File "')


def _sentence(error: BaseException, name: str, text: str) -> str:
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
