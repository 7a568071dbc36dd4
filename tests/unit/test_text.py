"""Text of tenants cannot move a terminal's cursor, forge a line of a log, or flood it."""

from __future__ import annotations

import pytest
from tftraining_operator.core.text import counted, one_line, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("step 7: loss 0.25", "step 7: loss 0.25", id="plain text stays as it is"),
        pytest.param("a\tb\nc", "a\tb\nc", id="newlines and tabs stay"),
        pytest.param("größer, 大きい, 👍", "größer, 大きい, 👍", id="all scripts stay"),
        pytest.param("\x1b[31;1mred\x1b[0m", "red", id="colours go"),
        pytest.param("a\x1b[2K\x1b[1Ab", "ab", id="cursor movements go"),
        pytest.param("\x9b31mred\x9b0m", "red", id="eight-bit sequences go"),
        pytest.param("\x1b]0;title\x07text", "text", id="window titles go"),
        pytest.param(
            "\x1b]8;;http://a.test\x1b\\link\x1b]8;;\x1b\\",
            "link",
            id="hyperlinks leave their text",
        ),
        pytest.param("\x1bPq#0;2\x1b\\text", "text", id="device strings go"),
        pytest.param("\x1bcreset\x1b(B", "reset", id="short sequences go"),
        pytest.param(
            "\x1b]0;open\nkept", "\nkept", id="a sequence without an end hides its line only"
        ),
        pytest.param("\x1b\x1b[0m[31mred", "[31mred", id="no sequence remains from nested ones"),
        pytest.param("a\x00b\x07c\x7fd\x1b", "abcd", id="other control characters go"),
        pytest.param("10%\r50%\r\ndone\n", "10%\n50%\ndone\n", id="carriage returns end lines"),
        pytest.param("a\u2028b\x85c\x0bd", "a\nb\nc\nd", id="so do the line ends of Unicode"),
        pytest.param("a\u202eb\u2066c", "abc", id="no text runs backwards"),
        pytest.param("half \ud83d of it", "half \ufffd of it", id="half a character is replaced"),
    ],
)
def test_printable_text_holds_no_control_characters(text: str, expected: str) -> None:
    assert printable(text) == expected
    printable(text).encode()


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param("as it is", 300, "as it is", id="short text stays"),
        pytest.param("  a\n\n b\tc  ", 300, "a b c", id="lines are joined by one space"),
        pytest.param(
            "x\nERROR 12:00:00 forged\x1b[0m", 300, "x ERROR 12:00:00 forged", id="no forged line"
        ),
        pytest.param("abcdef", 6, "abcdef", id="exactly the limit"),
        pytest.param("abcdefg", 6, "abcde…", id="longer text is cut and marked"),
        pytest.param("abcd efg", 6, "abcd…", id="no space before the mark"),
        pytest.param("\x1b[0m", 6, "", id="nothing remains of nothing"),
    ],
)
def test_one_line_is_one_line_within_its_limit(text: str, limit: int, expected: str) -> None:
    assert one_line(text, limit) == expected
    assert len(one_line(text, limit)) <= limit


def test_one_thing_is_told_in_the_singular() -> None:
    assert [counted(n, "pod") for n in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
