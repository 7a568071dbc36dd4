import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import TEMPLATE, Computer, computer
from tftrainer.runtime import process

# Before any test imports TensorFlow, which looks at this once.
process.prepare(os.environ)


@pytest.fixture(scope="session", autouse=True)
def _template() -> Iterator[None]:
    yield
    TEMPLATE.stop()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Computer]:
    with computer(tmp_path) as each:
        yield each
