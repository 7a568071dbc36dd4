from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Computer, computer


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Computer]:
    with computer(tmp_path) as each:
        yield each
