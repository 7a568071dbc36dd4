"""What a watch tells, in which order, and how a listing fits to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.core import desired
from tftraining_operator.reconcile.store import Kind

from tests.protocol.servers import KINDS
from tests.protocol.test_create import a_worker, bodies
from tests.protocol.test_delete import delete, is_deleting

if TYPE_CHECKING:
    from tftraining_operator.core.job import Job

    from tests.protocol.servers import Api, Seen, Server
    from tests.unit.builders import Raw


def is_gone(seen: Seen) -> bool:
    return seen.what == "DELETED"


async def test_a_pods_life_is_told_in_its_order(api: Api, server: Server, job: Job) -> None:
    made = await api.create(Kind.POD, a_worker(job))
    server.bind("mnist-worker-0")
    server.report("mnist-worker-0", {"phase": "Running"})
    await delete(server, made)
    server.let_go("mnist-worker-0")

    told = server.watched(Kind.POD, is_gone)
    assert [(seen.what, is_deleting(seen.raw)) for seen in told] == [
        ("ADDED", False),
        ("MODIFIED", False),
        ("MODIFIED", False),
        ("MODIFIED", True),
        ("MODIFIED", True),
        ("DELETED", True),
    ]
    graces = [seen.raw["metadata"].get("deletionGracePeriodSeconds") for seen in told]
    assert graces == [None, None, None, 30, 0, 0]
    assert [seen.raw["status"]["phase"] for seen in told] == ["Pending"] * 2 + ["Running"] * 4
    assert {seen.raw["metadata"]["uid"] for seen in told} == {made["metadata"]["uid"]}
    versions = [seen.version for seen in told]
    assert versions == sorted(set(versions)), "each is newer than the last, the end included"
    assert versions[0] == int(made["metadata"]["resourceVersion"])


def unnumbered(raw: Raw) -> Raw:
    """A whole object but its resource version and the record of who has set which field."""
    metadata = {
        key: value
        for key, value in raw["metadata"].items()
        if key not in ("resourceVersion", "managedFields")
    }
    return {**raw, "metadata": metadata}


async def test_a_watch_tells_the_whole_objects_that_calls_answer(
    api: Api, server: Server, job: Job
) -> None:
    made = await api.create(Kind.POD, a_worker(job))
    server.bind("mnist-worker-0")
    server.report("mnist-worker-0", {"phase": "Running", "podIP": "198.18.0.9"})
    running = await api.get(Kind.POD, server.namespace, "mnist-worker-0")
    deleting = await delete(server, made)
    told = server.watched(Kind.POD, lambda seen: is_deleting(seen.raw))
    for seen, answer in ((told[0], made), (told[-2], running), (told[-1], deleting)):
        assert unnumbered(seen.raw) == unnumbered(answer)
        assert seen.raw["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_deletion_carries_the_previous_object_numbered_anew(
    api: Api, server: Server, job: Job, kind: Kind
) -> None:
    await delete(server, await api.create(kind, bodies(job)[kind]))
    told = server.watched(kind, is_gone)
    assert unnumbered(told[-1].raw) == unnumbered(told[-2].raw)
    assert told[-1].version > told[-2].version
    assert is_deleting(told[-1].raw) == (kind is Kind.POD), "only a pod's end is announced"


async def test_a_pod_that_leaves_the_selector_is_told_as_it_was_before(
    api: Api, server: Server, job: Job
) -> None:
    made = await api.create(Kind.POD, a_worker(job))
    server.label("mnist-worker-0", {keys.LABEL_JOB: None, "team": "vision"})
    found = await api.get(Kind.POD, server.namespace, "mnist-worker-0")
    server.label("mnist-worker-0", {keys.LABEL_JOB: job.name})
    back = await api.get(Kind.POD, server.namespace, "mnist-worker-0")

    told = server.watched(Kind.POD, lambda seen: "team" in seen.raw["metadata"]["labels"])
    assert [seen.what for seen in told] == ["ADDED", "DELETED", "ADDED"]
    assert unnumbered(told[1].raw) == unnumbered(made), "with our label, and without the new one"
    assert not is_deleting(told[1].raw), "its end would be told with its deletion's time"
    assert told[1].version == int(found["metadata"]["resourceVersion"])
    assert unnumbered(told[2].raw) == unnumbered(back)


async def test_a_pod_that_left_the_selector_and_ends_is_told_to_nobody(
    api: Api, server: Server, job: Job
) -> None:
    made = await api.create(Kind.POD, a_worker(job))
    server.label("mnist-worker-0", {keys.LABEL_JOB: None})
    await delete(server, made)
    await api.create(Kind.POD, a_worker(job, 1))
    told = server.watched(Kind.POD, lambda seen: seen.name == "mnist-worker-1")
    assert [seen.what for seen in told] == ["ADDED", "DELETED", "ADDED"]


async def test_a_job_is_told_of_when_spec_or_status_change(
    api: Api, server: Server, job: Job
) -> None:
    edited = server.edit(job.name, lambda spec: spec["worker"].update(replicas=2))
    version = edited["metadata"]["resourceVersion"]
    written = await api.patch_status(server.namespace, job.name, version, {"state": "Running"})
    await api.delete(Kind.JOB, server.namespace, job.name, job.uid)

    told = server.watched(Kind.JOB, is_gone)
    assert [seen.what for seen in told] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [seen.raw["metadata"]["generation"] for seen in told] == [1, 2, 2, 2]
    assert [seen.raw.get("status", {}).get("state") for seen in told[1:]] == [
        None,
        "Running",
        "Running",
    ]
    assert told[2].version == int(written["metadata"]["resourceVersion"])
    assert told[3].version > told[2].version


async def test_a_service_that_goes_is_told_of(api: Api, server: Server, job: Job) -> None:
    made = await api.create(Kind.SERVICE, desired.service(job))
    await delete(server, made)
    told = server.watched(Kind.SERVICE, is_gone)
    assert [seen.what for seen in told] == ["ADDED", "DELETED"]
    assert told[1].version > told[0].version


async def test_one_made_again_under_the_same_name_is_told_after_the_end_of_the_first(
    api: Api, server: Server, job: Job
) -> None:
    first = await api.create(Kind.POD, a_worker(job))
    await delete(server, first)
    second = await api.create(Kind.POD, a_worker(job))
    told = server.watched(
        Kind.POD, lambda seen: seen.raw["metadata"]["uid"] == second["metadata"]["uid"]
    )
    assert [seen.what for seen in told] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    versions = [seen.version for seen in told]
    assert versions == sorted(set(versions))


async def test_a_pod_without_our_label_is_none_of_ours(api: Api, server: Server, job: Job) -> None:
    stranger = a_worker(job)
    del stranger["metadata"]["labels"][keys.LABEL_JOB]
    await api.create(Kind.POD, stranger)
    await api.create(Kind.POD, a_worker(job, 1))
    told = server.watched(Kind.POD, lambda seen: seen.name == "mnist-worker-1")
    assert [seen.name for seen in told] == ["mnist-worker-1"]
    items, _ = await server.listed(Kind.POD)
    assert [raw["metadata"]["name"] for raw in items] == ["mnist-worker-1"]


async def test_a_listing_is_as_new_as_all_that_it_lists(api: Api, server: Server, job: Job) -> None:
    for kind, body in bodies(job).items():
        before = await api.create(kind, body)
        items, version = await server.listed(kind)
        assert before["metadata"]["uid"] in {raw["metadata"]["uid"] for raw in items}
        assert {raw["kind"] for raw in items} == {kind.value}
        assert all(int(raw["metadata"]["resourceVersion"]) <= version for raw in items)
    after = await api.create(Kind.POD, a_worker(job, 1))
    assert int(after["metadata"]["resourceVersion"]) > version


async def test_one_counter_numbers_the_changes_of_all_kinds(
    api: Api, server: Server, job: Job
) -> None:
    first = await api.create(Kind.POD, a_worker(job))
    second = await api.create(Kind.SERVICE, desired.service(job))
    third = server.edit(job.name, lambda spec: spec["worker"].update(replicas=2))
    versions = [int(raw["metadata"]["resourceVersion"]) for raw in (first, second, third)]
    assert versions == sorted(set(versions))
