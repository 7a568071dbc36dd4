"""Chooses by parts of names, for the command lines of what can be run in part."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import typer

_T = TypeVar("_T")


def chosen(known: Iterable[_T], only: Sequence[str] | None, name: Callable[[_T], str]) -> list[_T]:
    """Return those whose name has one of the parts, or all where no part is given.

    Raises typer.BadParameter for a part that no name has.
    """
    named = [(name(each), each) for each in known]
    for part in only or ():
        if not any(part in called for called, _ in named):
            names = ", ".join(called for called, _ in named)
            raise typer.BadParameter(f"{part}: known are {names}")
    return [each for called, each in named if not only or any(part in called for part in only)]
