"""A part of a name that nothing has is a mistake, before a cluster is started for nothing."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from bench.scale import __main__ as scale
from e2e.chaos import __main__ as chaos
from e2e.scenarios.broken_jobs import __main__ as broken_jobs
from e2e.scenarios.broken_jobs.broken_job import BrokenJob, Told
from e2e.scenarios.tfjobs import __main__ as tfjobs
from tools.choice import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


@pytest.mark.parametrize(
    ("only", "found"),
    [(None, ["red", "green", "blue"]), (["re"], ["red", "green"]), (["blue", "re"], None)],
)
def test_what_has_one_of_the_parts_is_chosen_in_its_order(
    only: list[str] | None, found: list[str] | None
) -> None:
    known = ["red", "green", "blue"]

    assert chosen(known, only, str) == (found or known)


@pytest.mark.parametrize(
    ("program", "provides"),
    [(chaos, "obtain"), (broken_jobs, "obtain"), (tfjobs, "obtain"), (scale, "cluster")],
)
@pytest.mark.parametrize("more", [[], ["--only=e"]], ids=["alone", "beside one that exists"])
def test_nothing_is_started_for_what_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, program: ModuleType, provides: str, more: list[str]
) -> None:
    monkeypatch.setattr(program, provides, lambda *_, **__: pytest.fail("a cluster is started"))

    done = CliRunner().invoke(program.app, ["--only=no-such-thing", *more])

    assert done.exit_code == 2
    assert "no-such-thing: known are" in re.sub(r"[│\s]+", " ", done.output)


def test_of_broken_jobs_a_table_without_a_chosen_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables: list[list[str]] = []

    def told_of(_: object, jobs: Sequence[BrokenJob], **__: object) -> list[Told]:
        tables.append([job.name for job in jobs])
        said = [" ".join(job.words) for job in jobs]
        return [Told(job.state, *[words] * 3) for job, words in zip(jobs, said, strict=True)]

    for name, replaced in {
        **dict.fromkeys(("obtain", "installed"), lambda *_, **__: nullcontext()),
        "told_of": told_of,
    }.items():
        monkeypatch.setattr(broken_jobs, name, replaced)

    assert CliRunner().invoke(broken_jobs.app, ["--only=scheduler"]).exit_code == 0
    assert tables == [["scheduler"]]
