"""Which tests are skipped where a program is missing: none whose build failed."""

import pytest

from tests import conftest
from tools.cluster.shell import ClusterError, NoClusterError


def fail_to_build(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def binary(_name: str) -> None:
        raise error

    monkeypatch.setattr(conftest, "binary", binary)


def test_a_machine_without_go_skips_what_needs_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_build(monkeypatch, NoClusterError("Go is not installed"))
    with pytest.raises(pytest.skip.Exception, match="without-go is not available: Go is not"):
        conftest.program_or_skip("without-go")


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("that-does-not-compile", ClusterError("undefined: main")),
        ("on-a-full-disk", OSError("No space left on device")),
    ],
)
def test_a_program_whose_build_fails_is_no_reason_to_skip(
    monkeypatch: pytest.MonkeyPatch, program: str, error: Exception
) -> None:
    fail_to_build(monkeypatch, error)
    with pytest.raises(type(error), match=str(error)):
        conftest.program_or_skip(program)
