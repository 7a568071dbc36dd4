"""What helm says of a chart that it does not take is not lost."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tools import install_manifest, operator_rights


@pytest.mark.parametrize(
    ("part", "render"),
    [(install_manifest, install_manifest.rendered), (operator_rights, operator_rights.rendered)],
)
def test_why_a_chart_cannot_be_rendered_is_said(
    part: ModuleType,
    render: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    helm = tmp_path / "helm"
    helm.write_text("#!/bin/sh\necho 'Error: rbac.yaml:3: no function' >&2\nexit 1\n")
    helm.chmod(0o755)
    monkeypatch.setattr(part, "binary", lambda _: helm)

    with pytest.raises(subprocess.CalledProcessError):
        render()

    assert "rbac.yaml:3: no function" in capfd.readouterr().err
