"""A node image is built again only if its content may change: building one takes minutes."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.cluster import node_image
from tools.cluster.node_image import statements
from tools.cluster.shell import silent

MOST_OF_A_SOCKET = 107
"""The bytes that the path of a UNIX socket may have."""

SOURCE = '''"""A module."""
import os

def name() -> str:
    """Return a name."""
    return "node"  # always
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("import os", "from tools import cluster", id="an import"),
        pytest.param("A module.", "Another text.", id="the module's docstring"),
        pytest.param("Return a name.", "Return the name.", id="a function's docstring"),
        pytest.param("# always", "# now", id="a comment"),
    ],
)
def test_text_that_is_no_statement_does_not_count(old: str, new: str) -> None:
    assert statements(SOURCE.replace(old, new)) == statements(SOURCE)


def test_a_statement_counts() -> None:
    assert statements(SOURCE.replace('"node"', '"other"')) != statements(SOURCE)


def test_sockets_have_short_paths_wherever_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work = tmp_path / ("long" * 30)
    configs: list[str] = []
    calls: list[list[Any]] = []

    @contextmanager
    def containerd(config: Path, *_: object) -> Iterator[subprocess.Popen[bytes] | None]:
        configs.append(config.read_text())
        yield None

    monkeypatch.setattr(node_image, "binary", lambda name, _: Path(name))
    monkeypatch.setattr(node_image, "run", calls.append)
    monkeypatch.setattr(node_image, "_containerd", containerd)
    monkeypatch.setattr(node_image, "_wait", lambda *_: None)

    node_image._preload(tmp_path / "root", work, [tmp_path / "pause.tar"], silent)

    (command,) = calls
    socket = Path(command[command.index("--address") + 1])
    assert f'address = "{socket}"' in configs[0]
    assert len(f"{socket}.ttrpc") <= MOST_OF_A_SOCKET
    assert not socket.parent.exists(), "it goes with the containerd"
