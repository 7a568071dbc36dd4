"""How chaos deals its faults to jobs, and how it finds the harm that was done."""

import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from e2e.api import Api
from e2e.chaos.harm import ends_of_jobs, healthy_deleted
from e2e.chaos.kinds import KINDS, Kind, deal
from e2e.chaos.outcome import Injected
from e2e.chaos.recovery import Recovery
from e2e.chaos.run import Chaos
from e2e.faults import NoNodeError
from e2e.recording import Change, Recording
from e2e.scenarios.drill import Drill, now
from e2e.scenarios.space import Space
from tools.cluster import Cluster, ClusterError


def pod(
    at: float, uid: str, kind: str = "MODIFIED", *, ready: bool = True, leaving: bool = False
) -> Change:
    metadata: dict[str, Any] = {
        "name": "mnist-worker-0",
        "uid": uid,
        "labels": {"tftraining.dev/job": "mnist"},
        "resourceVersion": str(round(at * 10)),
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    return Change(at, kind, {"metadata": metadata, "status": {"conditions": conditions}})


def chance(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - chance, not secrets


def job(
    at: float, kind: str = "MODIFIED", *, finished: str = "False", completed: bool = False
) -> Change:
    status: dict[str, Any] = {"conditions": [{"type": "Finished", "status": finished}]}
    if completed:
        status["chiefCompletionTime"] = "2026-01-02T03:04:05Z"
    metadata = {"name": "mnist", "uid": "j", "resourceVersion": str(round(at * 10))}
    return Change(at, kind, {"metadata": metadata, "status": status})


def test_every_kind_is_dealt_when_there_are_faults_for_all() -> None:
    hands = deal(chance(1), jobs=12, each=9)

    assert [len(hand) for hand in hands] == [9] * 12
    assert {kind.title for hand in hands for kind in hand} == {kind.title for kind in KINDS}


def test_the_same_seed_deals_the_same() -> None:
    first, second = deal(chance(7), 5, 6), deal(chance(7), 5, 6)

    assert [[kind.title for kind in hand] for hand in first] == [
        [kind.title for kind in hand] for hand in second
    ]


def test_no_job_is_dealt_more_counted_restarts_than_its_time_allows() -> None:
    hands = deal(chance(3), jobs=3, each=40)

    assert max(sum(kind.counted for kind in hand) for hand in hands) <= 4


def test_titles_tell_the_kinds_apart() -> None:
    titles = [kind.title for kind in KINDS]

    assert len(titles) == len(set(titles))


@pytest.mark.parametrize(
    ("changes", "harmed"),
    [
        pytest.param([pod(1, "a"), pod(2, "a", leaving=True)], ["a"], id="deleted while ready"),
        pytest.param([pod(1, "a"), pod(2, "a", "DELETED")], ["a"], id="gone while ready"),
        pytest.param(
            [pod(1, "a", ready=False), pod(2, "a", leaving=True)], [], id="deleted, not ready"
        ),
        pytest.param(
            [pod(1, "a"), pod(2, "a", "DELETED"), pod(3, "a", "ADDED")],
            [],
            id="lost the label of its job and got it back",
        ),
        pytest.param([pod(1, "hit"), pod(2, "hit", leaving=True)], [], id="explained by a fault"),
        pytest.param([pod(8, "a"), pod(9, "a", leaving=True)], [], id="after its job's end"),
    ],
)
def test_a_healthy_pod_that_is_deleted_is_found(changes: list[Change], harmed: list[str]) -> None:
    found = healthy_deleted(changes, {"mnist": 85}, ["hit"])

    assert [harm.uid for harm in found] == harmed


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        pytest.param([job(1), job(2, finished="True")], 20, id="finished"),
        pytest.param(
            [job(1), job(2, completed=True), job(3, completed=True, finished="True")],
            20,
            id="the chief has succeeded, the evaluator is still at work",
        ),
        pytest.param([job(1), job(2, "DELETED")], 20, id="deleted"),
        pytest.param([job(1, finished="True"), job(2)], None, id="a forged end that was undone"),
        pytest.param([job(1)], None, id="none"),
    ],
)
def test_a_job_ends_when_it_is_finished_for_good(changes: list[Change], end: int | None) -> None:
    assert ends_of_jobs(changes).get("mnist") == end


def test_what_was_heard_first_need_not_have_come_first() -> None:
    """Pods and jobs are watched apart, so the end of a job may be heard after what it caused."""
    ends = ends_of_jobs([job(5, finished="True")])
    ready, deleted = pod(1, "a"), pod(6, "a", leaving=True)
    heard_early = replace(deleted, at=4.9)

    assert healthy_deleted([ready, heard_early], ends, []) == []


def test_faults_hit_one_role_or_a_job_or_all() -> None:
    roles = {kind.role for kind in KINDS}

    assert roles == {"worker", "ps", "chief", "evaluator", "job", ""}
    assert all(kind.exclusive for kind in KINDS if not kind.role)


@pytest.fixture
def chaos(monkeypatch: pytest.MonkeyPatch) -> Chaos:
    """A run on a cluster that takes all and answers nothing."""
    monkeypatch.setattr(Cluster, "kubectl", lambda *_, **__: "")
    cluster = Cluster("given", Path("kubeconfig"), given=True)
    return Chaos(Space(cluster, "chaos"), Recording(Api(1), "chaos"), 1, lambda _: None)


@pytest.mark.parametrize("error", [NoNodeError("SIGKILL: not ours to enter"), KeyError("status")])
def test_a_job_that_ends_by_any_error_has_failed_and_the_others_run(
    chaos: Chaos, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    begun = list[str]()

    def fail(name: str, *_: object) -> None:
        begun.append(name)
        raise error

    monkeypatch.setattr(chaos, "_job", fail)
    outcome = chaos.run(jobs=3, faults_each=1, at_once=1, deadline=now() + 60)

    assert begun == ["chaos-1", "chaos-2", "chaos-3"]
    said = f"{type(error).__name__}: {error}"
    assert outcome.errors == [f"{name}: {said}" for name in begun]


def test_only_checkpoints_that_were_corrupted_excuse_a_start_behind_the_newest(
    chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[tuple[int, int]]()

    def inject(drill: Drill, kind: Kind, *_: object) -> Injected:
        return Injected(0.0, drill.job, kind, Recovery(None))

    def end(_drill: Drill, counted: int, unreadable: int) -> None:
        ended.append((counted, unreadable))

    monkeypatch.setattr(Drill, "start", lambda *_: None)
    monkeypatch.setattr(Recording, "step", lambda *_: 10**9)
    monkeypatch.setattr(chaos, "_wait_until_leads", lambda *_: None)
    monkeypatch.setattr(chaos, "_inject", inject)
    monkeypatch.setattr(chaos, "_end", end)
    monkeypatch.setattr("e2e.chaos.run._PAUSES", (0.0, 0.0))
    corrupts = next(kind for kind in KINDS if kind.skips_checkpoint)
    deleted = next(kind for kind in KINDS if not kind.counted)

    chaos._job("chaos-1", [deleted, corrupts], chance(1))
    chaos._job("chaos-2", [corrupts, deleted], chance(1))
    assert ended == [(0, 0), (1, 1)], "a job that is near its end is hit no more"


def test_a_run_whose_operator_could_not_be_killed_fails(
    chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(_: Cluster) -> None:
        raise ClusterError("no answer")

    monkeypatch.setattr("e2e.chaos.run._KILLS_APART", (0.0, 0.0))
    monkeypatch.setattr("e2e.platform_faults.kill_operator", kill)
    monkeypatch.setattr(chaos, "_small_job", lambda _: None)
    monkeypatch.setattr(chaos, "_together", lambda *_: time.sleep(0.2))

    with pytest.raises(ClusterError, match="no answer"):
        chaos.run_operator_kills(jobs=1, kills=3, at_once=1)


def test_a_run_without_a_job_is_an_error(chaos: Chaos) -> None:
    assert chaos.run(jobs=3, faults_each=1, at_once=1, deadline=now()).errors == ["no job was run"]
