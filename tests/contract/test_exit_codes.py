"""The operator knows the exit codes of the contract, and treats each as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.decide import decide
from tftraining_operator.core.decision import Phase
from tftraining_operator.core.exit_codes import ExitCode
from tftraining_operator.core.facts import Facts

from tests.unit.builders import NOW, a_job, a_pod, seen

CODES = json.loads((Path(__file__).parent / "exit_codes.json").read_text())["codes"]
JOB = a_job().build()


def test_the_enum_is_the_table() -> None:
    assert {code.name: code.value for code in ExitCode} == {c["name"]: c["code"] for c in CODES}


@pytest.mark.parametrize("entry", CODES, ids=lambda entry: f"{entry['code']} {entry['name']}")
def test_the_chief_ends_with_it(entry: dict[str, Any]) -> None:
    observed = seen(JOB, a_pod(JOB, Role.CHIEF).exited(entry["code"]))
    decision = decide(JOB, observed, Facts(), NOW)
    if entry["name"] == "SUCCEEDED":
        assert decision.phase is Phase.SUCCEEDED
    elif entry["permanent"]:
        reason = "Diverged" if entry["name"] == "DIVERGED" else "PermanentFailure"
        assert (decision.phase, decision.reason) == (Phase.FAILED, reason)
    else:
        assert decision.phase is Phase.ACTIVE
        assert decision.restarts == int(entry["counted"])
        assert decision.attempt == 1


@pytest.mark.parametrize("code", [2, 42, 128, 137, 139, 255])
def test_a_code_that_is_not_in_the_table_is_restarted_and_counted(code: int) -> None:
    assert code not in {c["code"] for c in CODES}
    decision = decide(JOB, seen(JOB, a_pod(JOB, Role.CHIEF).exited(code)), Facts(), NOW)
    assert (decision.phase, decision.restarts, decision.reason) == (Phase.ACTIVE, 1, "ChiefFailed")
