"""A node image is built again only if its content may change: building one takes minutes."""

import pytest

from tools.cluster.node_image import statements

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
