"""Options that are wrong are refused before anything is asked of the cluster, or sent to it."""

from __future__ import annotations

import json

import pytest
from tftraining.cli.app import app
from tftraining.cli.commands import options
from tftraining.client import TFTrainingClient
from tftraining.errors import InputError
from typer.testing import CliRunner, Result

from tests.unit.builders import a_job
from tests.unit.client.connection import Stored


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """The cluster of every command."""
    stored = Stored()
    monkeypatch.setattr(
        options, "client", lambda _namespace, _context: TFTrainingClient(cluster=stored.cluster())
    )
    return stored


def run(*arguments: str) -> Result:
    manifest = {**a_job().raw, "metadata": {"name": "mnist"}}
    return CliRunner().invoke(app, arguments, input=json.dumps(manifest))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            ("submit", "-", "--wait", "--timeout=soon"), "soon is no duration", id="submit"
        ),
        pytest.param(("wait", "mnist", "--timeout=soon"), "soon is no duration", id="wait"),
        pytest.param(("progress", "mnist", "--timeout=soon"), "soon is no duration", id="progress"),
        pytest.param(
            ("submit", "-", "--timeout=5m"),
            "--timeout: add --wait, which it is about",
            id="a timeout of nothing",
        ),
        pytest.param(
            ("submit", "-", "--timeout=5m", "--dry-run"), "add --wait", id="not even printed"
        ),
    ],
)
def test_a_wrong_timeout_is_refused_first(
    stored: Stored, arguments: tuple[str, ...], told: str
) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, InputError)
    assert told in str(done.exception)
    assert (stored.asked, done.stdout) == ([], "")


def test_a_right_one_is_not(stored: Stored) -> None:
    assert run("submit", "-").exit_code == 0
    done = run("wait", "mnist", "--timeout=0s")
    assert "mnist is not finished after 0 s (--timeout)" in str(done.exception)
    assert stored.asked[0].startswith("GET")
