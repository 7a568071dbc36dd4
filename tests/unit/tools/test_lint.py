"""What a check cannot do without is named as it was said."""

import pytest

from tools import lint
from tools.cluster import ClusterError


def test_why_nothing_can_be_checked_is_printed_to_the_letter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "go build failed (exit 1): open [/tmp/go]: no space left"

    def fail() -> None:
        raise ClusterError(said)

    monkeypatch.setattr(lint, "checks", fail)

    assert lint.main() == 1
    assert capsys.readouterr().out == f"{said}\n"
