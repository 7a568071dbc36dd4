import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bucket import Bucket, running
from harness import ROOT, TEMPLATE, Computer, computer
from hypothesis import settings
from tftrainer.runtime import process

# How long an example takes depends on what else the machine does.
settings.register_profile("trainer", deadline=None)
settings.load_profile("trainer")

# Before any test imports TensorFlow, which looks at this once.
process.prepare(os.environ)


@pytest.fixture(scope="session", autouse=True)
def _template() -> Iterator[None]:
    yield
    TEMPLATE.stop()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the object store before any test's clock runs: a cold build takes minutes."""
    if session.config.option.collectonly:
        return
    if any("bucket" in getattr(item, "fixturenames", ()) for item in session.items):
        _object_store()


@functools.cache
def _object_store() -> Path | str:
    """Return the program's path, or why there is none."""
    # By the Python of the operator, which has what tools needs.
    python = ROOT / ".venv/bin/python"
    code = "from tools.cluster.binaries import binary; print(binary('fake-gcs-server'))"
    try:
        made = subprocess.run(
            [python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    return made.stderr.strip().rpartition("\n")[2] if made.returncode else Path(made.stdout.strip())


@pytest.fixture
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    program = _object_store()
    if isinstance(program, str):
        pytest.skip(f"fake-gcs-server is not available: {program}")
    with running(program, tmp_path_factory.mktemp("bucket")) as each:
        yield each


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Computer]:
    with computer(tmp_path) as each:
        yield each
