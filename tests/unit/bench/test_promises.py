"""The table of promises at scale says what was kept, and nothing of what was not measured."""

from __future__ import annotations

from typing import Any

from bench.scale.audit import Requests
from bench.scale.life import Life
from bench.scale.promises import promises
from bench.scale.results import Results


def results(**lives: list[Life]) -> Results:
    found = Results("raw")
    for who, rounds in lives.items():
        for number, life in enumerate(rounds):
            found.add(NAMES.get(who, who), number, life)
    return found


NAMES = {"tuned": "training-operator 1, tuned", "shards": "ours, 3 shards"}


def a_life(jobs: int, pods: float = 1.0, cpu: float = 0.01, **more: Any) -> Life:
    return Life(jobs, pods_exist=pods, cpu=cpu * jobs, **more)


def test_creation_is_compared_within_rounds() -> None:
    text = promises(
        results(
            raw=[a_life(200, 4.0), a_life(200, 10.0), a_life(200, 5.0)],
            ours=[a_life(200, 4.8), a_life(200, 14.0), a_life(200, 6.0)],
            tuned=[a_life(200, 12.0, 0.008), a_life(200, 28.0, 0.008)],
        )
    )
    assert (
        "| 200 jobs: until all pods exist, to a bare client | ≤ 1.30 times | 1.20 times | kept |"
        in text
    )
    assert "training-operator (tuned) to ours | ≥ 2.00 times | 2.25 times | kept |" in text
    assert "ours to training-operator's (tuned) | ≤ 1.00 times | 1.25 times | missed |" in text
    assert "defaults" not in text


def test_the_small_job_is_one_of_those_that_share_what_was_written() -> None:
    requests = Requests()
    requests.writes["create pods"] = 4020
    text = promises(results(ours=[a_life(200, requests=requests, small=0.5)]))
    assert "| 200 jobs: writes for a job's life | ≤ 20.0 | 20.0 | kept |" in text


def test_what_one_operator_carries_is_the_worst_of_the_rounds() -> None:
    calm = a_life(1000, steady=0.1, memory=200.0, stall=0.05, synced=3.0, rest=0.001, small=0.5)
    busy = a_life(1000, steady=0.31, memory=190.0, stall=0.12, rest_writes=2, rest=0.005)
    busy.replaced = [0.1] * 99 + [3.0]
    text = promises(results(ours=[calm, busy]))
    for line in (
        "of a core while all report | ≤ 30.0 % | 31.0 % | missed |",
        "peak of memory | ≤ 268 MB | 200 MB | kept |",
        "a failed worker is made again, p99 | ≤ 1.0 s | 3.0 s | missed |",
        "longest turn of the event loop | ≤ 100 ms | 120 ms | missed |",
        "writes in 10 s when all have ended | ≤ 0 | 2 | missed |",
        "a small job beside them, until its pods | ≤ 2.0 s | 500 ms | kept |",
    ):
        assert line in text


def test_shards_have_the_same_promises_and_cost_no_more_a_job() -> None:
    found = results(ours=[a_life(50, cpu=0.02)], shards=[a_life(50, cpu=0.03)])
    assert "CPU a job" not in promises(found)
    found.add(NAMES["shards"], 1, a_life(10_000, cpu=0.023, steady=0.2))
    text = promises(found)
    assert (
        "| 10000 jobs, 3 shards, each: of a core while all report | ≤ 30.0 % | 20.0 % | kept |"
        in text
    )
    for where, times in (("one operator", "1.15"), ("the same shards", "0.77")):
        what = f"10000 jobs: CPU a job, to that of 50 on {where}"
        assert f"| {what} | ≤ 1.20 times | {times} times | kept |" in text


def test_without_measures_there_is_no_table() -> None:
    assert promises(Results("raw")) == ""
