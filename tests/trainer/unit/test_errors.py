import pytest
from tftrainer.errors import one_line

STACK = """Graph execution error:

Detected at node while/IteratorGetNext defined at (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap

<stack traces unavailable>
{}/nowhere/data.csv; No such file or directory
\t [[{{{{node while/IteratorGetNext}}}}]] [Op:__inference_call_887]"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("Socket closed\nmore of it", "Socket closed", id="one that begins with it"),
        pytest.param(
            STACK.format(""), "/nowhere/data.csv; No such file or directory", id="after a stack"
        ),
        pytest.param(
            STACK.format("2 root error(s) found.\n  (0) NOT_FOUND:  "),
            "(0) NOT_FOUND:  /nowhere/data.csv; No such file or directory",
            id="several",
        ),
        pytest.param("", "no message", id="none at all"),
    ],
)
def test_the_gist_is_what_is_wrong_not_where(text: str, said: str) -> None:
    assert one_line(ValueError(text)) == f"ValueError: {said}"
