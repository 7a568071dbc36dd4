"""Fixtures of whole passes; property tests find the same on every machine, and quickly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.unit.fakes import FakeCluster, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile("unit", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("unit")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def operator(cluster: FakeCluster, runner: asyncio.Runner) -> Operator:
    return Operator(cluster, runner)
