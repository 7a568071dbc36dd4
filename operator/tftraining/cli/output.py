"""Prints jobs in the form that -o asks for."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tftraining_operator.api.keys import GROUP, SINGULAR

from tftraining import yaml_text
from tftraining.cli import console
from tftraining.cli.output_format import OutputFormat
from tftraining.view import table

if TYPE_CHECKING:
    from tftraining.metrics import MetricRecord

_Object = dict[str, Any]


def show_jobs(
    jobs: Sequence[_Object],
    form: OutputFormat | None,
    *,
    everywhere: bool = False,
    one: bool = False,
) -> None:
    """Print jobs; `one` prints a single object, and not a list of one."""
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        document: _Object = {"apiVersion": "v1", "kind": "List", "items": list(jobs)}
        console.document(dumped(jobs[0] if one else document, form))
        return
    if form is OutputFormat.NAME:
        for job in jobs:
            console.show(f"{SINGULAR}.{GROUP}/{job['metadata']['name']}")
        return
    from rich.text import Text

    rows = table.table(
        jobs, datetime.now(UTC), wide=form is OutputFormat.WIDE, everywhere=everywhere
    )
    state = rows[0].index("STATE")
    out = console.out()
    for number, row in enumerate(table.aligned(rows)):
        parts = [
            (cell, table.colour(cell.strip()) if number and at == state else "")
            for at, cell in enumerate(row)
        ]
        line = Text("   ").join(Text(text, style) for text, style in parts)
        line.rstrip()
        out.print(line, soft_wrap=True)


def metric_lines(records: "Sequence[MetricRecord]") -> list[str]:
    """Return values as the lines of a table."""
    rows = [
        [each["source"], str(each["step"]), each["name"], repr(each["value"])] for each in records
    ]
    return table.lines([["SOURCE", "STEP", "NAME", "VALUE"], *rows])


def finite(records: "Sequence[MetricRecord]") -> list[_Object]:
    """Return values for JSON, which has no nan and inf: those are text, as in the status."""
    return [
        {**each, "value": each["value"] if math.isfinite(each["value"]) else str(each["value"])}
        for each in records
    ]


def dumped(document: object, form: str) -> str:
    """Return an object as JSON or YAML, with a newline at its end."""
    if form == OutputFormat.JSON:
        return json.dumps(document, indent=2) + "\n"
    return yaml_text.dumped([document])
