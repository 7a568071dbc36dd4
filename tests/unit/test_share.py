"""Which objects a process lists and watches: those of its shards' jobs, and no others."""

from __future__ import annotations

import re

import pytest
from tftraining_operator.api import keys
from tftraining_operator.controller.share import Share
from tftraining_operator.core.naming import BUCKETS, job_labels
from tftraining_operator.reconcile.store import JobKey


def left_out(selector: str) -> set[str]:
    """Return the buckets that a selector leaves out."""
    found = re.fullmatch(rf"{keys.LABEL_JOB}(?:,{keys.LABEL_BUCKET} notin \(([\d,]+)\))?", selector)
    assert found is not None
    return set((found[1] or "").split(",")) - {""}


def having(*shards: int, of: int) -> Share:
    share = Share(of)
    for shard in shards:
        share.take_in(shard)
    return share


def test_without_shards_all_is_selected_that_is_a_jobs() -> None:
    assert Share(1).selector() == keys.LABEL_JOB
    assert Share(1).job_selector() == ""


@pytest.mark.parametrize("shards", [2, 3, 7, 12, 64])
def test_every_bucket_is_selected_by_one_shard(shards: int) -> None:
    selected = [
        bucket
        for shard in range(shards)
        for bucket in {str(bucket) for bucket in range(BUCKETS)}
        - left_out(having(shard, of=shards).selector())
    ]
    assert sorted(selected, key=int) == [str(bucket) for bucket in range(BUCKETS)]


def test_who_has_two_of_three_shards_selects_both_and_then_one() -> None:
    share = having(0, 2, of=3)
    assert left_out(share.selector()) == {str(bucket) for bucket in range(1, BUCKETS, 3)}
    share.forget(2)
    assert left_out(share.selector()) == {
        str(bucket) for bucket in range(BUCKETS) if bucket % 3 != 0
    }


@pytest.mark.parametrize("number", range(20))
def test_what_is_selected_is_what_is_taken_in(number: int) -> None:
    key, share = JobKey("team", f"job-{number}"), having(1, of=3)
    bucket = job_labels(*key, uid="u1")[keys.LABEL_BUCKET]
    assert (bucket not in left_out(share.selector())) == share.takes_in(key)


def test_jobs_are_selected_as_what_they_own_is() -> None:
    share = having(0, 2, of=3)
    found = [
        re.fullmatch(r"status\.bucket!=(\d+)", part) for part in share.job_selector().split(",")
    ]
    assert {part[1] for part in found if part} == left_out(share.selector())
    assert None not in found
