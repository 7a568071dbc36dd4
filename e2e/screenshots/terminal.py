"""Pictures of `tftj progress` in a terminal, light and dark."""

import os
import pty
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from e2e.install import ROOT
from e2e.scenarios.space import Space
from tools.browser import Page

_PICTURES = ROOT / "docs/guide/pictures"
_COLUMNS = 110
_THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": DIMMED_MONOKAI}
# What rich writes to draw a live view anew: it goes up and erases, line by line.
_REDRAW = re.compile(r"(?:\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*)+")
_PAGE = """<!doctype html><meta charset="utf-8"><body style="margin:0;background:{background}">
<pre style="margin:0;padding:16px;display:inline-block;background:{background};color:{foreground};
font:14px/1.35 'DejaVu Sans Mono',monospace">{{code}}</pre>"""


@contextmanager
def progress(space: Space, job: str) -> Iterator[Callable[[], str]]:
    """Run `tftj progress` in a terminal; give what returns all that it has written until now."""
    ours, theirs = pty.openpty()
    env = space.environment() | {"COLUMNS": str(_COLUMNS), "LINES": "24", "TERM": "xterm-256color"}
    command = space.tftj_command("progress", job)
    process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = bytearray()

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while data := os.read(ours, 65536):
                written.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lambda: written.decode(errors="replace")
    finally:
        process.terminate()
        process.wait()
        reader.join()
        os.close(ours)


def last_frame(written: str) -> str:
    """Return the last complete view of a live one, with its colours."""
    *_, frame, _unfinished = ["", *_REDRAW.split(written)]
    return frame.replace("\r\n", "\n").strip("\r\n")  # as terminals end lines


def pictures(tab: Page, frame: str) -> Iterator[Path]:
    """Take the view on light and dark ground; yield the files."""
    _PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, theme in _THEMES.items():
            page = Path(folder) / f"{name}.html"
            page.write_text(html(f"$ tftj progress mnist\n{frame}", theme))
            tab.look(1000, height=50)  # as high as what is shown
            tab.open(page.as_uri())
            file = _PICTURES / f"progress-{name}.png"
            tab.picture(file)
            yield file


def html(text: str, theme: TerminalTheme) -> str:
    """Return what a terminal shows as a page."""
    console = Console(record=True, width=_COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text), soft_wrap=True)
    code = _PAGE.format(
        background=theme.background_color.hex, foreground=theme.foreground_color.hex
    )
    return console.export_html(theme=theme, code_format=code, inline_styles=True)
