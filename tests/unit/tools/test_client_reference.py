"""The reference of the client is what its signatures and docstrings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.client_reference import PAGE, UndocumentedError, attributes, method, rendered, signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining.client import Goal


class Client:
    """A client."""

    name: str | None = None
    """Its
    name."""
    _own: int = 0

    @property
    def size(self) -> int:
        """How large it is."""
        return 0

    def train(self, task: str, *, role: Goal | None = None, say: Callable[[], None] = print) -> str:
        """Train a task.

        Raises InputError.

        Args:
            task: a file
                | folder.
            role: which.

        """

    def bare(self) -> None: ...


class Undocumented:
    name: str
    size: int


def test_the_page_is_what_the_client_says() -> None:
    assert PAGE.read_text() == rendered(), "run `make manifests`"


def test_a_method_has_its_types_defaults_description_and_arguments() -> None:
    goal = "Literal['finished', 'running', 'ready', 'suspended']"
    assert "\n".join(method("train", Client.train)).splitlines() == [
        "```python",
        "train(",
        "    task: str,",
        "    *,",
        f"    role: {goal} | None = None,",
        "    say: Callable[[], None] = ...,",
        ") -> str",
        "```",
        "",
        "Train a task.",
        "",
        "Raises InputError.",
        "",
        "| argument | meaning |",
        "|---|---|",
        "| `task` | a file \\| folder. |",
        "| `role` | which. |",
    ]
    assert signature("bare", Client.bare) == "bare() -> None"


def test_attributes_are_the_public_fields_and_properties() -> None:
    assert attributes(Client).splitlines()[2:] == [
        "| `name` | `str \\| None` | Its name. |",
        "| `size` | `int` | How large it is. |",
    ]


def test_what_has_no_docstring_is_named() -> None:
    with pytest.raises(UndocumentedError, match="bare"):
        list(method("bare", Client.bare))
    with pytest.raises(UndocumentedError, match=r"Undocumented\.name"):
        attributes(Undocumented)
