"""What exists as far as we know: the newer version wins, whoever brought it."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.reconcile import store as store_module
from tftraining_operator.reconcile.store import JobKey, Kind, Store

KEY = JobKey("default", "mnist")


def a_pod(
    version: int, *, name: str = "mnist-ps-0", uid: str = "u1", **fields: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {keys.LABEL_JOB: "mnist"},
    }
    return {"metadata": metadata | fields}


def a_job(version: int, *, uid: str = "j1") -> dict[str, Any]:
    metadata = {"name": "mnist", "namespace": "default", "uid": uid}
    return {"metadata": metadata | {"resourceVersion": str(version)}}


def versions(store: Store) -> dict[str, str]:
    return {
        raw["metadata"]["name"]: raw["metadata"]["resourceVersion"]
        for raw in store.children(Kind.POD, KEY)
    }


@pytest.mark.parametrize(
    ("first", "second", "kept", "told"),
    [
        pytest.param(5, 6, "6", KEY, id="a newer one replaces"),
        pytest.param(6, 5, "6", None, id="an older one is dropped: a late watch"),
        pytest.param(5, 5, "5", None, id="the same is nothing new: our own write"),
        pytest.param(9, 10, "10", KEY, id="versions are numbers, not words"),
    ],
)
def test_the_newer_version_wins(first: int, second: int, kept: str, told: JobKey | None) -> None:
    store = Store()
    assert store.put(Kind.POD, a_pod(first)) == KEY
    assert store.put(Kind.POD, a_pod(second)) == told
    assert versions(store) == {"mnist-ps-0": kept}


def test_what_is_deleted_stays_deleted_whatever_comes_late() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    assert store.remove(Kind.POD, a_pod(7)) == KEY
    assert store.put(Kind.POD, a_pod(6)) is None
    assert store.put(Kind.POD, a_pod(8)) is None
    assert versions(store) == {}


def test_a_deletion_that_overtakes_the_answer_of_the_create_wins() -> None:
    store = Store()
    store.remove(Kind.POD, a_pod(7))
    assert store.put(Kind.POD, a_pod(5)) is None
    assert versions(store) == {}


def test_a_late_deletion_does_not_touch_the_successor() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(9, uid="u2"))
    store.remove(Kind.POD, a_pod(7, uid="u1"))
    assert versions(store) == {"mnist-ps-0": "9"}


def test_a_successor_may_come_before_the_deletion_is_told() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5, uid="u1"))
    assert store.put(Kind.POD, a_pod(8, uid="u2")) == KEY
    store.remove(Kind.POD, a_pod(7, uid="u1"))
    assert versions(store) == {"mnist-ps-0": "8"}


def test_forgetting_needs_the_uid() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    store.forget(Kind.POD, KEY, "mnist-ps-0", "another")
    assert versions(store) == {"mnist-ps-0": "5"}
    store.forget(Kind.POD, KEY, "mnist-ps-0", "u1")
    assert versions(store) == {}


def test_a_listing_replaces_what_it_lacks_and_tells_which_jobs_changed() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(3))
    store.put(Kind.POD, a_pod(4, name="mnist-worker-0", uid="u2"))
    touched = store.replace(Kind.POD, [a_pod(4, name="mnist-worker-0", uid="u2")], "10", None)
    assert touched == {KEY}
    assert versions(store) == {"mnist-worker-0": "4"}
    assert store.replace(Kind.POD, [a_pod(4, name="mnist-worker-0", uid="u2")], "11", None) == set()


def test_a_listing_does_not_remove_what_is_newer_than_itself() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(12))
    assert store.replace(Kind.POD, [], "10", None) == set()
    assert versions(store) == {"mnist-ps-0": "12"}


def test_a_listing_of_one_namespace_says_nothing_of_others() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(3))
    store.replace(Kind.POD, [], "10", "team-a")
    assert versions(store) == {"mnist-ps-0": "3"}
    store.replace(Kind.POD, [], "10", "default")
    assert versions(store) == {}


def test_what_carries_no_job_is_not_kept() -> None:
    store = Store()
    assert store.put(Kind.POD, a_pod(1, labels={"app": "web"})) is None
    assert store.put(Kind.POD, a_pod(1, labels=None)) is None
    assert versions(store) == {}


def test_jobs_are_found_by_their_name_and_a_new_one_takes_the_place() -> None:
    store = Store()
    assert store.job(KEY) is None
    assert store.put(Kind.JOB, a_job(1)) == KEY
    assert store.put(Kind.JOB, a_job(9, uid="j2")) == KEY
    found = store.job(KEY)
    assert found is not None
    assert found["metadata"]["uid"] == "j2"
    store.remove(Kind.JOB, a_job(10, uid="j2"))
    assert store.job(KEY) is None
    assert store.job(KEY) is None


def test_what_only_fills_memory_is_dropped() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(1, managedFields=[{"manager": "kubelet"}]))
    assert "managedFields" not in store.children(Kind.POD, KEY)[0]["metadata"]


def test_of_the_deleted_the_newest_are_remembered_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_TOMBSTONES", 2)
    store = Store()
    for uid in ("u1", "u2", "u3"):
        store.remove(Kind.POD, a_pod(1, uid=uid))
    assert store.put(Kind.POD, a_pod(2, uid="u3")) is None
    assert store.put(Kind.POD, a_pod(2, uid="u2")) is None
    assert store.put(Kind.POD, a_pod(2, uid="u1")) == KEY
