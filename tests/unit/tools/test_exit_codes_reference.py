"""The tables of exit codes are those of the contract, with the operator's reasons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tools.exit_codes_reference import CONTRACT, GUIDE, TRAINER, action, rendered

if TYPE_CHECKING:
    from pathlib import Path

CODES = {each["code"]: each for each in json.loads(CONTRACT.read_text())["codes"]}


@pytest.mark.parametrize("page", [GUIDE, TRAINER], ids=lambda page: page.stem)
def test_the_pages_have_the_codes_of_the_contract(page: Path) -> None:
    assert page.read_text() == rendered()[page], "run `make manifests`"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(0, "Succeeded", id="complete"),
        pytest.param(1, "counted restart, `ChiefFailed` or `WorkerFailed`", id="by role"),
        pytest.param(64, "Failed, `PermanentFailure`", id="permanent"),
        pytest.param(75, "counted restart, `ParameterServerLost`", id="a reason of its own"),
        pytest.param(77, "Failed, `Diverged`", id="permanent, with a reason of its own"),
    ],
)
def test_what_the_operator_does_has_its_reason(code: int, expected: str) -> None:
    assert action(CODES[code]) == expected
