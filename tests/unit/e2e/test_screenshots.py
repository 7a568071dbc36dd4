"""What the pictures of the docs are made of, before a browser shows it."""

from __future__ import annotations

from io import StringIO

import nbformat
from rich.console import Console
from rich.live import Live
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from e2e.screenshots import notebook, terminal


def test_the_last_frame_is_the_last_whole_view() -> None:
    written = StringIO()
    console = Console(file=written, force_terminal=True, width=40, color_system="standard")
    with Live(Text("first\nline"), console=console, auto_refresh=False) as live:
        for text in ("second\nline", "third\nline", "fourth"):
            live.update(Text(text, style="red"), refresh=True)
        shown = Text.from_ansi(terminal.last_frame(written.getvalue())).plain
    assert shown == "third\nline"


def test_nothing_was_written_yet() -> None:
    assert terminal.last_frame("") == ""


def test_a_page_keeps_the_colours_of_a_terminal() -> None:
    page = terminal.html("\x1b[31mloss ▁▂█ <0.1>\x1b[0m", DEFAULT_TERMINAL_THEME)
    assert '<span style="color: #800000' in page
    assert "loss ▁▂█ &lt;0.1&gt;" in page


def test_a_notebook_is_a_page_with_its_outputs() -> None:
    document = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# A *title*"),
            nbformat.v4.new_code_cell(
                "x = 1",
                execution_count=3,
                outputs=[
                    nbformat.v4.new_output("stream", text="a < b\n"),
                    nbformat.v4.new_output(
                        "display_data", data={"text/html": "<b>job</b>", "text/plain": "job"}
                    ),
                ],
            ),
        ]
    )
    page = notebook.html(document)
    for part in ("<h1>A <em>title</em></h1>", "[3]:", "<pre>a &lt; b</pre>", "<b>job</b>"):
        assert part in page
