"""HTML that is escaped by construction: only what these functions made is left as it is.

Names, messages and logs come from users of the cluster. Whatever is a plain string is text.
"""

from collections.abc import Iterable, Sequence
from html import escape

_VOID = frozenset({"meta", "link", "br"})


class Markup(str):
    """HTML. Made by `tag` and `join` alone."""

    __slots__ = ()


Content = str | Iterable[str]
"""Text, HTML, or several of them."""


def join(parts: Iterable[str]) -> Markup:
    """Return HTML and text as HTML; text is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def tag(name: str, content: Content = "", /, **attributes: str | float | None) -> Markup:
    """Return an element.

    Attributes are named as in Python: `class_`, and `aria_label` for aria-label. One that is None
    is left out, and so is the value of one that is "".
    """
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), str(value))
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    inner = join([content] if isinstance(content, str) else content)
    return Markup(f"<{name}{given}>{inner}</{name}>")


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else f" {name}"


def table(label: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table whose first column names its rows; `label` is what it is called.

    Where it is wider than the screen, it can be scrolled, also by keyboard.
    """
    head = tag("tr", (tag("th", title.capitalize(), scope="col") for title in titles))
    body = (
        tag("tr", (tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)))
        for first, *rest in rows
    )
    whole = tag("table", (tag("thead", head), tag("tbody", body)), aria_label=label)
    return tag("div", whole, class_="wide", role="region", aria_label=label, tabindex="0")
