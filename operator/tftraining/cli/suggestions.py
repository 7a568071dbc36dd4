"""Names the nearest value in the answer to a mistyped one, as typer does for commands and options.

Called by app.py with the error that typer raises for wrong use.
"""

import difflib
from typing import Any

import typer
from pydantic import ValidationError
from typer.exceptions import TyperException

_LIKE = 0.6
"""From which ratio on difflib's get_close_matches takes two words for alike."""


def suggest(error: TyperException) -> None:
    """Have an error say what was probably meant."""
    if isinstance(error, typer.BadParameter):
        _suggest_value(error)
    elif hasattr(error, "possibilities"):
        _suggest_option(error)


def _suggest_option(error: Any) -> None:  # noqa: ANN401 - typer's own, without a public name
    """Leave out options that are like the given one in their dashes alone."""
    given = error.option_name.lstrip("-")
    error.possibilities = [
        each
        for each in error.possibilities or ()
        if difflib.SequenceMatcher(None, each.lstrip("-"), given).ratio() >= _LIKE
    ]
    if error.ctx is not None and error.ctx.info_name == "submit" and not error.possibilities:
        error.message += (
            "; if the trainer is to have it, write -- before it, as in tftj submit task.py --"
            f" {error.option_name}=5"
        )


def _suggest_value(error: typer.BadParameter) -> None:
    """Have an error name the values that there are, and the one that was probably meant."""
    described = getattr(error.param, "type_descriptor", None)
    choices = [str(choice.value) for choice in getattr(described, "choices", None) or ()]
    cause = error.__cause__
    if not choices or not isinstance(cause, ValidationError):
        return
    given = str(cause.errors()[0]["input"])
    lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(given.lower(), lower, n=1)
    meant = f"; did you mean {lower[near[0]]}?" if near else ""
    error.message = f"{given!r} is not one of {', '.join(choices)}{meant}"
