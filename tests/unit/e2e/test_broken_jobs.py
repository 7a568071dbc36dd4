"""What is read of broken jobs, and the tables that are made of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import API_VERSION

from e2e.scenarios.broken_jobs import looking
from e2e.scenarios.broken_jobs.__main__ import SECTIONS
from e2e.scenarios.broken_jobs.broken_job import BrokenJob, Told, missing
from e2e.scenarios.broken_jobs.looking import row
from e2e.scenarios.broken_jobs.page import markdown, stable
from tools.cluster import Cluster, ClusterError
from tools.pages import section

if TYPE_CHECKING:
    from e2e.scenarios.space import Space

PAGE = Path(__file__).parents[3] / "docs/guide/troubleshooting.md"
JOBS = [broken for jobs, _ in SECTIONS.values() for broken in jobs]

BROKEN = BrokenJob(
    "a typo", {"metadata": {"name": "mnist"}}, "Failed", ("no such file", "correct --task")
)
WHOLE = "no such file; correct --task"
GOOD = Told("Failed", WHOLE, f"mnist: Failed: {WHOLE}", f"ExitCode: {WHOLE}")

TABLE = """\
NAME    STATE    WORKERS   PS    PROGRESS   RESTARTS   AGE   STEP   LOSS   ETA   MODEL   MESSAGE
mnist   Failed   0/1       0/1              0          13s                               no  file
"""


def test_a_job_that_says_all_lacks_nothing() -> None:
    assert missing(BROKEN, GOOD) == []


@pytest.mark.parametrize(
    ("told", "lacking"),
    [
        pytest.param(
            Told("Running", WHOLE, WHOLE, WHOLE),
            ["kubectl get: STATE Failed, it is Running"],
            id="another state",
        ),
        pytest.param(
            Told("Failed", WHOLE, "no such file", WHOLE),
            ['tftj describe: "correct --task"'],
            id="no remedy in one of the texts",
        ),
        pytest.param(
            Told("Failed", WHOLE, WHOLE, ""),
            ['event: "no such file"', 'event: "correct --task"'],
            id="no event",
        ),
    ],
)
def test_what_is_not_said_is_named(told: Told, lacking: list[str]) -> None:
    assert missing(BROKEN, told) == lacking


def test_state_and_message_are_read_by_their_columns() -> None:
    assert row(TABLE) == ("Failed", "no  file")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("namespace broken-memory-0a1f", "namespace memory"),
        ("uid 01234567-89ab-cdef-0123-456789abcdef", "uid 01234567-…"),
        ("lookup on 10.96.0.10:53", "lookup on 10.0.0.1"),
        ("since 2026-11-23T03:50:57Z", "since 2026-01-01T00:00:00Z"),
        ("on node tftraining-control-plane", "on node node-1"),
    ],
)
def test_what_differs_from_run_to_run_is_not_on_the_page(said: str, shown: str) -> None:
    assert stable(said) == shown


def test_a_table_holds_what_was_said() -> None:
    table = markdown([BROKEN], [Told("Failed", "", "mnist: Failed: a|b", "Failed: set `x`")])
    assert table.splitlines()[2] == (
        "| a typo | `Failed` | `Failed: a\\|b` | `` Failed: set `x` `` |"
    )


def test_an_event_that_says_the_same_is_its_reason() -> None:
    described = "mnist: Failed (PermanentFailure): mnist-chief-0 exited with 64: no such file"
    event = "ExitCode: mnist-chief-0: ExitCode (exit code 64): no such file"
    table = markdown([BROKEN], [Told("Failed", "", described, event)])
    assert table.splitlines()[2].endswith("| `ExitCode` |")


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_a_row_for_each_job(name: str) -> None:
    jobs, _ = SECTIONS[name]
    rows = [line for line in section(PAGE, name).splitlines() if line.startswith("| ")][1:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in rows] == [
        broken.mistake for broken in jobs
    ]


def test_each_job_has_a_name_of_its_own_and_is_one_of_ours() -> None:
    names = [broken.name for broken in JOBS]
    assert len(set(names)) == len(names) >= 20
    assert {broken.manifest["apiVersion"] for broken in JOBS} == {API_VERSION}


def test_the_namespaces_of_all_go_though_one_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleted: set[str] = set()

    def kubectl(_: Cluster, *words: str, **__: object) -> str:
        if words[:2] == ("delete", "namespace"):
            deleted.update(word for word in words[2:] if not word.startswith("-"))
        return ""

    def told(_: Space, broken: BrokenJob) -> Told:
        if broken is JOBS[0]:
            raise ClusterError("connection refused")
        time.sleep(0.2)
        return GOOD

    monkeypatch.setattr(Cluster, "kubectl", kubectl)
    monkeypatch.setattr(looking, "_told", told)

    with pytest.raises(ClusterError, match="connection refused"):
        looking.told_of(Cluster("given", Path("config"), given=True), JOBS[:4], at_once=1)

    assert {name.rpartition("-")[0] for name in deleted} == {f"broken-{j.name}" for j in JOBS[:4]}
