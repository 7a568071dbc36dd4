"""Writes the tables of exit codes from the contract (`make manifests`).

Their meaning is that of tests/contract/exit_codes.json; the reasons are the operator's own.
tests/unit/tools/test_exit_codes_reference.py fails where a page is outdated.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.exit_codes import failure_reason, restart_reason

from tools.pages import filled, table

ROOT = Path(__file__).parents[1]
CONTRACT = ROOT / "tests/contract/exit_codes.json"
GUIDE = ROOT / "docs/guide/failures.md"
TRAINER = ROOT / "trainer_image/README.md"

_SECTION = "exit codes"

_Object = dict[str, Any]


def rendered() -> dict[Path, str]:
    """Return the pages with the tables in their places."""
    codes = json.loads(CONTRACT.read_text())["codes"]
    guide = table(("code", "meaning", "what the operator does"), _rows(codes), others="---")
    trainer = table(("code", "meaning"), (row[:2] for row in _rows(codes)), others="---")
    return {
        GUIDE: filled(GUIDE, _SECTION, guide),
        TRAINER: filled(TRAINER, _SECTION, trainer),
    }


def _rows(codes: list[_Object]) -> Iterator[tuple[str, str, str]]:
    for each in codes:
        yield f"`{each['code']}`", each["meaning"], action(each)


def action(entry: _Object) -> str:
    """Return what the operator does when a chief or worker ends with a code of the contract."""
    if not entry["code"]:
        return "Succeeded"
    cause = Cause("ExitCode", exit_code=entry["code"])
    if entry["permanent"]:
        return f"Failed, `{failure_reason(cause)}`"
    reasons = dict.fromkeys(restart_reason(role, cause) for role in (Role.CHIEF, Role.WORKER))
    counted = "counted restart" if entry["counted"] else "restart"
    return f"{counted}, {' or '.join(f'`{reason}`' for reason in reasons)}"


def main() -> None:
    """Write the pages."""
    for page, text in rendered().items():
        page.write_text(text)


if __name__ == "__main__":
    main()
