"""Names the nearest value in the answer to a mistyped one, as typer does for commands and options.

Called by app.py with the error that typer raises for a value.
"""

import difflib

import typer
from pydantic import ValidationError


def suggest_value(error: typer.BadParameter) -> None:
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
