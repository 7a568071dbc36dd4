"""What exists as far as we know: the newer version wins, whoever brought it."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.core import naming
from tftraining_operator.reconcile import store as store_module
from tftraining_operator.reconcile.store import JobKey, Kind, Store

KEY = JobKey("default", "mnist")
OWNER = {
    "apiVersion": keys.API_VERSION,
    "kind": keys.KIND,
    "name": "mnist",
    "uid": "j1",
    "controller": True,
}


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


def test_what_comes_late_revives_nothing_that_was_deleted() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    assert store.remove(Kind.POD, a_pod(7)) == KEY
    assert store.put(Kind.POD, a_pod(6)) is None
    assert versions(store) == {}


def test_a_pod_that_leaves_the_selector_and_comes_back_is_seen_again() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    store.remove(Kind.POD, a_pod(7))
    assert store.put(Kind.POD, a_pod(9)) == KEY
    assert versions(store) == {"mnist-ps-0": "9"}
    assert store.put(Kind.POD, a_pod(6)) is None


def test_a_pod_that_left_the_selector_is_taken_from_a_read_at_that_version() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    store.remove(Kind.POD, a_pod(7))
    # The watch's DELETED has the version of the change that took the label.
    assert store.put(Kind.POD, a_pod(7, labels={}, ownerReferences=[OWNER])) == KEY
    assert versions(store) == {"mnist-ps-0": "7"}


def test_a_deletion_told_late_does_not_touch_a_newer_version() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    store.put(Kind.POD, a_pod(9))  # our own read, after the label came back
    store.remove(Kind.POD, a_pod(7))
    assert versions(store) == {"mnist-ps-0": "9"}


def test_what_the_server_does_not_find_is_gone_at_any_version() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5))
    store.forget(Kind.POD, KEY, "mnist-ps-0", "u1")
    assert store.put(Kind.POD, a_pod(6)) is None
    assert store.put(Kind.POD, a_pod(99)) is None
    assert versions(store) == {}


def test_a_deletion_of_what_was_forgotten_does_not_let_it_return() -> None:
    store = Store()
    store.forget(Kind.POD, KEY, "mnist-ps-0", "u1")
    store.remove(Kind.POD, a_pod(7))
    assert store.put(Kind.POD, a_pod(8)) is None


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
    found = [a_pod(4, name="mnist-worker-0", uid="u2")]
    assert store.replace(Kind.POD, found, "10", None, store.mark()) == {KEY}
    assert versions(store) == {"mnist-worker-0": "4"}
    found = [a_pod(4, name="mnist-worker-0", uid="u2")]
    assert store.replace(Kind.POD, found, "11", None, store.mark()) == set()


def test_a_listing_does_not_undo_what_was_learned_while_it_was_under_way() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5, name="mnist-worker-0", uid="u2"))
    mark = store.mark()
    store.put(Kind.POD, a_pod(12))
    store.put(Kind.POD, a_pod(13, name="mnist-worker-0", uid="u2"))
    store.remove(Kind.POD, a_pod(14, name="mnist-worker-1", uid="u3"))
    found = [
        a_pod(5, name="mnist-worker-0", uid="u2"),
        a_pod(6, name="mnist-worker-1", uid="u3"),
    ]
    assert store.replace(Kind.POD, found, "10", None, mark) == set()
    assert versions(store) == {"mnist-ps-0": "12", "mnist-worker-0": "13"}


def test_a_listing_takes_out_what_was_learned_and_is_gone_already() -> None:
    store = Store()
    mark = store.mark()
    store.put(Kind.POD, a_pod(8))
    assert store.replace(Kind.POD, [], "10", None, mark) == {KEY}
    assert versions(store) == {}


def test_a_listing_brings_back_what_was_taken_for_gone() -> None:
    store = Store()
    store.remove(Kind.POD, a_pod(7))
    store.forget(Kind.POD, KEY, "mnist-worker-0", "u2")
    found = [a_pod(8), a_pod(8, name="mnist-worker-0", uid="u2")]
    assert store.replace(Kind.POD, found, "10", None, store.mark()) == {KEY}
    assert versions(store) == {"mnist-ps-0": "8", "mnist-worker-0": "8"}


def test_a_listing_of_one_namespace_says_nothing_of_others() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(3))
    store.replace(Kind.POD, [], "10", "team-a", store.mark())
    assert versions(store) == {"mnist-ps-0": "3"}
    store.replace(Kind.POD, [], "10", "default", store.mark())
    assert versions(store) == {}


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("300", id="the server is behind what we know"),
        pytest.param("9000", id="the server has counted on since"),
    ],
)
def test_after_a_restore_to_lower_versions_a_listing_is_taken_as_it_is(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    store.put(Kind.POD, a_pod(500))
    store.put(Kind.POD, a_pod(510, name="mnist-worker-0", uid="u2"))
    store.remove(Kind.POD, a_pod(520, name="mnist-worker-1", uid="u3"))
    found = [a_pod(250), a_pod(260, name="mnist-worker-1", uid="u3")]
    assert store.replace(Kind.POD, found, version, None, store.mark()) == {KEY}
    assert versions(store) == {"mnist-ps-0": "250", "mnist-worker-1": "260"}
    assert store.put(Kind.POD, a_pod(310)) == KEY, "the watch goes on from there"
    (warning,) = caplog.messages
    assert warning.startswith("resource versions of pods went back")
    assert store.went_back


def test_a_restore_is_known_before_anything_of_the_listing_is_looked_at() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(500))
    listing = store.begin_listing(Kind.POD, None)
    store.take_page(listing, [], "499")
    assert store.went_back


def test_our_own_write_while_a_listing_is_under_way_is_no_restore() -> None:
    store = Store()
    listing = store.begin_listing(Kind.POD, None)
    store.put(Kind.POD, a_pod(305))
    store.take_page(listing, [], "300")
    store.end_listing(listing, "300")
    store.replace(Kind.POD, [a_pod(305)], "310", None, store.mark())
    assert not store.went_back


def test_after_a_restore_our_own_write_is_kept_though_the_listing_was_under_way() -> None:
    store = Store()
    store.put(Kind.JOB, a_job(500))
    store.put(Kind.POD, a_pod(500))
    mark = store.mark()
    store.put(Kind.POD, a_pod(305, name="mnist-worker-0", uid="u2"))  # created after the restore
    assert store.replace(Kind.POD, [a_pod(250)], "300", None, mark) == {KEY}
    assert versions(store) == {"mnist-ps-0": "250", "mnist-worker-0": "305"}


def test_what_a_late_watch_told_of_the_time_before_a_restore_ends_with_the_next_listing() -> None:
    store = Store()
    mark = store.mark()
    store.put(Kind.POD, a_pod(500))
    store.replace(Kind.POD, [a_pod(250)], "300", None, mark)
    store.replace(Kind.POD, [a_pod(250)], "301", None, store.mark())
    assert versions(store) == {"mnist-ps-0": "250"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"labels": {"app": "web"}}, id="other labels"),
        pytest.param({"labels": None}, id="no labels"),
        pytest.param(
            {"labels": None, "ownerReferences": [OWNER | {"controller": False}]},
            id="the job owns it, but is not its controller",
        ),
        pytest.param(
            {"labels": None, "ownerReferences": [OWNER | {"kind": "ReplicaSet"}]},
            id="a controller of another kind",
        ),
        pytest.param(
            {"labels": None, "ownerReferences": [OWNER | {"apiVersion": "kubeflow.org/v1"}]},
            id="a controller of another group",
        ),
    ],
)
def test_what_belongs_to_no_job_is_not_kept(fields: dict[str, Any]) -> None:
    store = Store()
    assert store.put(Kind.POD, a_pod(1, **fields)) is None
    assert versions(store) == {}


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="without labels"),
        pytest.param({keys.LABEL_JOB: "other"}, id="with another job's label"),
    ],
)
def test_a_pod_belongs_to_the_job_that_controls_it_whatever_its_label(
    labels: dict[str, str],
) -> None:
    store = Store()
    assert store.put(Kind.POD, a_pod(1, labels=labels, ownerReferences=[OWNER])) == KEY
    assert versions(store) == {"mnist-ps-0": "1"}
    assert store.children(Kind.POD, JobKey("default", "other")) == []


def test_a_job_is_controlled_by_whom_it_likes() -> None:
    store = Store()
    raw = a_job(1)
    raw["metadata"]["ownerReferences"] = [OWNER | {"name": "sweep"}]
    assert store.put(Kind.JOB, raw) == KEY


def test_an_object_that_changes_its_job_is_one_jobs_only() -> None:
    other = JobKey("default", "other")
    store = Store()
    store.put(Kind.POD, a_pod(1))
    assert store.put(Kind.POD, a_pod(2, labels={keys.LABEL_JOB: "other"})) == other
    assert versions(store) == {}
    assert store.put(Kind.POD, a_pod(1)) is None, "a late watch"
    store.remove(Kind.POD, a_pod(3, labels={keys.LABEL_JOB: "mnist"}))
    assert store.children(Kind.POD, other) == []


def test_a_pod_that_lost_our_label_stays_known_until_it_is_read() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5, ownerReferences=[OWNER]))
    assert store.unlisted() == []
    assert store.remove(Kind.POD, a_pod(7, ownerReferences=[OWNER])) == KEY
    assert versions(store) == {"mnist-ps-0": "7"}
    ((kind, key, raw),) = store.unlisted()
    assert (kind, key, raw["metadata"]["name"]) == (Kind.POD, KEY, "mnist-ps-0")
    assert store.replace(Kind.POD, [], "10", None, store.mark()) == set(), "no listing has it"
    assert versions(store) == {"mnist-ps-0": "7"}
    assert store.put(Kind.POD, a_pod(12, ownerReferences=[OWNER])) == KEY
    assert store.unlisted() == []


@pytest.mark.parametrize(
    ("bucket", "stays"),
    [
        pytest.param({keys.LABEL_BUCKET: str(naming.bucket(*KEY))}, False, id="its own"),
        pytest.param({}, False, id="none: of an operator that knew none"),
        pytest.param({keys.LABEL_BUCKET: "any"}, True, id="one that somebody gave to it"),
    ],
)
def test_no_listing_has_a_pod_with_the_bucket_of_other_jobs(
    bucket: dict[str, str], *, stays: bool
) -> None:
    store = Store()
    labels = {keys.LABEL_JOB: KEY.name} | bucket
    store.put(Kind.POD, a_pod(5, labels=labels, ownerReferences=[OWNER]))
    assert bool(store.unlisted()) == stays
    store.replace(Kind.POD, [], "10", None, store.mark())
    assert bool(store.children(Kind.POD, KEY)) == stays


def test_a_deleted_pod_is_not_taken_for_one_that_lost_our_label() -> None:
    store = Store()
    store.put(Kind.POD, a_pod(5, ownerReferences=[OWNER]))
    deleted = a_pod(7, ownerReferences=[OWNER], deletionTimestamp="2026-01-02T03:04:05Z")
    assert store.remove(Kind.POD, deleted) == KEY
    assert versions(store) == {}
    assert store.unlisted() == []


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
    (kept,) = store.children(Kind.POD, KEY)
    assert "managedFields" not in kept["metadata"]
    again = Store()
    again.take_page(again.begin_listing(Kind.POD, None), [kept], "1", is_cut=True)
    assert again.children(Kind.POD, KEY) == [kept]


def test_of_the_deleted_the_newest_are_remembered_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_TOMBSTONES", 2)
    store = Store()
    for uid in ("u1", "u2", "u3"):
        store.remove(Kind.POD, a_pod(2, uid=uid))
    assert store.put(Kind.POD, a_pod(1, uid="u3")) is None
    assert store.put(Kind.POD, a_pod(1, uid="u2")) is None
    assert store.put(Kind.POD, a_pod(1, uid="u1")) == KEY


def test_of_jobs_that_another_process_works_on_nothing_is_kept() -> None:
    mine: set[JobKey] = set()
    store = Store(mine.__contains__)
    assert store.put(Kind.POD, a_pod(5)) is None
    assert store.remove(Kind.POD, a_pod(6, deletionTimestamp="2026-01-02T03:04:05Z")) is None
    assert store.replace(Kind.POD, [a_pod(5)], "7", None, store.mark()) == set()
    assert versions(store) == {}
    mine.add(KEY)
    assert store.replace(Kind.POD, [a_pod(5)], "7", None, store.mark()) == {KEY}
    assert versions(store) == {"mnist-ps-0": "5"}


def test_a_job_that_is_given_to_another_process_leaves_nothing() -> None:
    mine = {KEY}
    store = Store(mine.__contains__)
    store.put(Kind.JOB, a_job(4))
    store.put(Kind.POD, a_pod(5))
    assert store.drop(lambda key: key == JobKey("default", "other")) == set()
    mine.clear()
    assert store.drop(lambda key: key == KEY) == {KEY}
    assert store.job(KEY) is None
    assert versions(store) == {}
    assert store.unlisted() == []
    mine.add(KEY)
    assert store.put(Kind.POD, a_pod(5)) == KEY
