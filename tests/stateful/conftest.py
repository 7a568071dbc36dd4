"""Fixtures of the stateful tests."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of all operators of a module."""
    with asyncio.Runner() as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """Ten thousand lives are not worth their logs, which would cost a third of the time."""
    logging.getLogger("tftraining_operator").setLevel(logging.ERROR)
