"""The API of a local run answers as an API server does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining.cli.local.api import LocalApi
from tftraining.errors import InputError
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind, Store

from tests.unit.builders import IMAGE, PodBuilder, a_job, stamp
from tests.unit.cli.local import FakeKubelet, FakeTasks
from tests.unit.fakes import Clock

if TYPE_CHECKING:
    from tests.unit.builders import Raw

JOB = a_job()
NAME = "mnist-chief-0"


@pytest.fixture
def kubelet() -> FakeKubelet:
    return FakeKubelet()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def api(kubelet: FakeKubelet, store: Store) -> LocalApi:
    return LocalApi(JOB.raw, store, kubelet, FakeTasks(), Clock())


def a_pod() -> Raw:
    return desired.pod(JOB.build(), Role.CHIEF, 0, 0, IMAGE)


def version(raw: Raw) -> int:
    return int(raw["metadata"]["resourceVersion"])


async def test_a_created_pod_has_what_an_api_server_adds(api: LocalApi, store: Store) -> None:
    made = await api.create(Kind.POD, a_pod())
    assert made["metadata"]["uid"] == "uid-1-1"
    assert made["metadata"]["creationTimestamp"] == stamp()
    job = store.job(api.key)
    assert job is not None
    assert version(made) > version(job)
    assert await api.get(Kind.POD, "default", NAME) == made


async def test_a_dry_run_starts_nothing(api: LocalApi, kubelet: FakeKubelet) -> None:
    assert (await api.create(Kind.POD, a_pod(), dry_run=True))["metadata"]["name"] == NAME
    assert kubelet.raw == {}
    with pytest.raises(errors.NotFoundError):
        await api.get(Kind.POD, "default", NAME)


async def test_a_pod_that_cannot_run_here_is_invalid(
    kubelet: FakeKubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(_self: FakeTasks, _pod: Raw) -> None:
        raise InputError("volume data: not available on this computer")

    monkeypatch.setattr(FakeTasks, "check", check)
    api = LocalApi(JOB.raw, Store(), kubelet, FakeTasks(), Clock())
    for dry_run in (True, False):
        with pytest.raises(errors.InvalidObjectError, match="not available on this computer"):
            await api.create(Kind.POD, a_pod(), dry_run=dry_run)
    assert kubelet.raw == {}


async def test_a_name_in_use_is_refused(api: LocalApi) -> None:
    service = desired.service(JOB.build())
    for kind, body in ((Kind.POD, a_pod()), (Kind.SERVICE, service)):
        await api.create(kind, body)
        with pytest.raises(errors.AlreadyExistsError):
            await api.create(kind, body)


async def test_news_of_the_kubelet_reach_the_store_once(
    api: LocalApi, kubelet: FakeKubelet, store: Store
) -> None:
    made = await api.create(Kind.POD, a_pod())
    store.put(Kind.POD, made)
    assert not api.sync()
    kubelet.act(NAME, PodBuilder.running)
    assert api.sync()
    assert not api.sync()
    (known,) = store.children(Kind.POD, api.key)
    assert known["status"]["phase"] == "Running"
    assert version(known) > version(made)
    del kubelet.raw[NAME]
    assert api.sync()
    assert not api.sync()
    assert store.children(Kind.POD, api.key) == []


async def test_a_running_pod_is_deleted_with_its_grace(api: LocalApi, kubelet: FakeKubelet) -> None:
    made = await api.create(Kind.POD, a_pod())
    kubelet.act(NAME, PodBuilder.running)
    going = await api.delete(Kind.POD, "default", NAME, made["metadata"]["uid"])
    assert going["metadata"]["deletionTimestamp"] == stamp(30)
    assert version(going) > version(made)
    assert (await api.get(Kind.POD, "default", NAME)) == going
    gone = await api.delete(Kind.POD, "default", NAME, made["metadata"]["uid"], grace=0)
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    with pytest.raises(errors.NotFoundError):
        await api.delete(Kind.POD, "default", NAME, made["metadata"]["uid"])


async def test_another_uid_deletes_nothing(api: LocalApi, kubelet: FakeKubelet) -> None:
    await api.create(Kind.POD, a_pod())
    with pytest.raises(errors.ConflictError):
        await api.delete(Kind.POD, "default", NAME, "another")
    assert list(kubelet.raw) == [NAME]


async def test_the_service_is_kept_until_it_is_deleted(api: LocalApi) -> None:
    made = await api.create(Kind.SERVICE, desired.service(JOB.build()))
    assert await api.get(Kind.SERVICE, "default", "mnist") == made
    gone = await api.delete(Kind.SERVICE, "default", "mnist", made["metadata"]["uid"])
    assert "deletionTimestamp" not in gone["metadata"]
    with pytest.raises(errors.NotFoundError):
        await api.get(Kind.SERVICE, "default", "mnist")


async def test_an_object_is_written_over_at_its_version_only(api: LocalApi) -> None:
    made = await api.create(Kind.NETWORK_POLICY, desired.network_policy(JOB.build(), []))
    changed = await api.replace(Kind.NETWORK_POLICY, {**made, "spec": {}})
    assert changed["spec"] == {}
    assert await api.get(Kind.NETWORK_POLICY, "default", "mnist-isolation") == changed
    with pytest.raises(errors.ConflictError):
        await api.replace(Kind.NETWORK_POLICY, made)


async def test_a_status_patch_is_merged_at_the_version_that_it_was_made_for(
    api: LocalApi, store: Store
) -> None:
    job = store.job(api.key)
    assert job is not None
    first = job["metadata"]["resourceVersion"]
    made = await api.patch_status("default", "mnist", first, {"a": {"b": 1, "c": 2}, "d": [1]})
    patch = {"a": {"b": None, "e": 3}, "d": [2]}
    second = made["metadata"]["resourceVersion"]
    changed = await api.patch_status("default", "mnist", second, patch)
    assert changed["status"] == {"a": {"c": 2, "e": 3}, "d": [2]}
    assert int(second) > int(first)
    with pytest.raises(errors.ConflictError):
        await api.patch_status("default", "mnist", second, {"d": []})
    with pytest.raises(errors.NotFoundError):
        await api.patch_status("default", "other", second, {"d": []})


async def test_a_patch_that_changes_nothing_makes_no_new_version(
    api: LocalApi, store: Store
) -> None:
    job = store.job(api.key)
    assert job is not None
    first = await api.patch_status(
        "default", "mnist", job["metadata"]["resourceVersion"], {"attempt": 1}
    )
    same = await api.patch_status(
        "default", "mnist", first["metadata"]["resourceVersion"], {"attempt": 1}
    )
    assert same == first
