"""The shapes of TFJobs: what the converter makes of each, and the table on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tftraining.cli.convert.findings import Level

from e2e.scenarios.tfjobs.page import markdown, reported
from e2e.scenarios.tfjobs.running import Outcome, wrong
from e2e.scenarios.tfjobs.shapes import ALL, BY_NAME, FOLDER, Shape
from tests.unit.cli.conversions import convert_text
from tools.pages import section

PAGE = Path(__file__).parents[3] / "docs/guide/from-tfjob.md"

REPORT = """\
shapes/port.yaml: port: converted in part
  differs spec.tfReplicaSpecs.Worker.replicas: 2 workers are a chief and 1 worker
  differs spec.runPolicy.cleanPodPolicy: unset kept all pods
  lost    spec.successPolicy: the chief alone decides
"""


def job(state: str, start: str = "10:00:00", end: str | None = "10:00:07") -> dict[str, object]:
    status = {"state": state, "message": "why", "startTime": f"2026-01-01T{start}Z"}
    ended = {"completionTime": f"2026-01-01T{end}Z"} if end else {}
    metadata = {"name": "x", "namespace": "training", "uid": "1", "generation": 1}
    metadata["creationTimestamp"] = status["startTime"]
    template = {"spec": {"containers": [{"name": "tensorflow"}]}}
    spec = {"strategy": "Mirrored", "template": template}
    return {"metadata": metadata, "spec": spec, "status": {**status, **ended}}


def test_every_file_is_a_shape() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(BY_NAME)


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_a_shape_is_converted_or_refused_with_the_reason(shape: Shape) -> None:
    conversions = convert_text(shape.path.read_text()).conversions
    assert conversions
    findings = [str(each) for conversion in conversions for each in conversion.findings]
    if shape.end != "Failed":  # its message has the words
        assert shape.words in "\n".join(findings)
    for conversion in conversions:
        if shape.end:
            assert conversion.job is not None
        else:
            assert conversion.job is None
            assert conversion.findings[-1].level is Level.REFUSED


def test_a_report_is_shortened_to_its_fields() -> None:
    assert reported(REPORT) == "differs `Worker.replicas`, `cleanPodPolicy`; lost `successPolicy`"


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(Outcome("says it", (job("Succeeded"),)), [], id="as it should be"),
        pytest.param(
            Outcome("says it", (job("Failed"),)),
            ["ended ['Failed'], not Succeeded: why"],
            id="another end",
        ),
        pytest.param(
            Outcome("", (job("Succeeded"),)),
            ["neither report nor message say 'says it'"],
            id="a report that lacks it",
        ),
        pytest.param(
            Outcome("says it", problem="refused"),
            ["refused", "ended [], not Succeeded: "],
            id="refused by the API server",
        ),
    ],
)
def test_what_is_wrong_is_named(outcome: Outcome, expected: list[str]) -> None:
    assert wrong(Shape("x", "a shape", words="says it"), outcome) == expected


def test_the_time_is_that_of_all_jobs_of_a_file() -> None:
    both = (job("Succeeded"), job("Succeeded", "10:00:02", "10:00:09"))
    assert Outcome("", both).seconds == 9
    assert Outcome("", (*both, job("Running", end=None))).seconds is None


def test_a_row_says_how_it_ended() -> None:
    failing = Shape("x", "a shape", end="Failed")
    row = markdown([failing], [Outcome(REPORT, (job("Failed"),))]).splitlines()[-1]
    assert row.startswith("| a shape | differs `Worker.replicas`")
    assert row.endswith("| Failed: why | 7 s |")


def test_the_page_has_all_shapes() -> None:
    rows = section(PAGE, "shapes").splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")][1:] == [
        shape.what for shape in ALL
    ]
