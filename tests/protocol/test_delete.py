"""Who goes at once, who gets a grace, and who is not meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.core import desired
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind

from tests.protocol.servers import KINDS
from tests.protocol.test_create import a_worker, bodies, names

if TYPE_CHECKING:
    from tftraining_operator.core.job import Job

    from tests.protocol.servers import Api, Server
    from tests.unit.builders import Raw


async def a_bound_pod(server: Server, job: Job) -> Raw:
    """A pod that a kubelet runs."""
    made = await server.api.create(Kind.POD, a_worker(job))
    server.bind(made["metadata"]["name"])
    return made


async def delete(server: Server, raw: Raw) -> Raw:
    metadata = raw["metadata"]
    return await server.api.delete(
        Kind(raw["kind"]), server.namespace, metadata["name"], metadata["uid"]
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_another_objects_uid_is_a_conflict(
    api: Api, server: Server, job: Job, kind: Kind
) -> None:
    made = await api.create(kind, bodies(job)[kind])
    with pytest.raises(errors.ConflictError) as refused:
        await delete(server, {**made, "metadata": made["metadata"] | {"uid": job.uid + "0"}})
    assert refused.value.status == 409
    found = await api.get(kind, server.namespace, made["metadata"]["name"])
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_gone_is_not_found(api: Api, server: Server, job: Job, kind: Kind) -> None:
    made = await api.create(kind, bodies(job)[kind])
    await delete(server, made)
    assert made["metadata"]["name"] not in await names(server, kind)
    with pytest.raises(errors.NotFoundError) as missing:
        await delete(server, made)
    assert missing.value.status == 404


async def test_the_answer_of_a_pod_that_goes_at_once_is_as_new_as_the_watch(
    server: Server, job: Job
) -> None:
    answer = await delete(server, await server.api.create(Kind.POD, a_worker(job)))
    assert answer["metadata"]["deletionTimestamp"]
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0, "the operator reads: it is gone"
    assert "finalizers" not in answer["metadata"]
    told = server.watched(Kind.POD, lambda seen: seen.what == "DELETED")
    assert told[-1].version == int(answer["metadata"]["resourceVersion"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Kind.POD])
async def test_the_answer_of_all_else_tells_of_no_deletion_under_way(
    server: Server, job: Job, kind: Kind
) -> None:
    answer = await delete(server, await server.api.create(kind, bodies(job)[kind]))
    assert "deletionTimestamp" not in answer["metadata"]


async def test_a_pod_on_a_node_stays_until_its_kubelet_lets_it_go(
    api: Api, server: Server, job: Job
) -> None:
    made = await a_bound_pod(server, job)
    answer = await delete(server, made)
    assert answer["metadata"]["deletionTimestamp"]
    assert answer["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(answer["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    with pytest.raises(errors.AlreadyExistsError):
        await api.create(Kind.POD, a_worker(job))
    found = await api.get(Kind.POD, server.namespace, "mnist-worker-0")
    assert found["metadata"]["deletionTimestamp"] == answer["metadata"]["deletionTimestamp"]
    server.let_go("mnist-worker-0")
    assert await names(server, Kind.POD) == []


async def test_a_pod_that_somebody_holds_stays_though_it_has_no_grace(
    server: Server, job: Job
) -> None:
    body = a_worker(job)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    answer = await delete(server, await server.api.create(Kind.POD, body))
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    assert answer["metadata"]["finalizers"] == ["example.com/hold"]
    assert await names(server, Kind.POD) == ["mnist-worker-0"]


async def test_to_delete_again_changes_nothing(api: Api, server: Server, job: Job) -> None:
    made = await a_bound_pod(server, job)
    first = await delete(server, made)
    second = await delete(server, made)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    assert await names(server, Kind.POD) == ["mnist-worker-0"]
    with pytest.raises(errors.ConflictError):
        await api.delete(Kind.POD, server.namespace, "mnist-worker-0", "another")


@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
async def test_a_pod_that_has_ended_goes_at_once(
    api: Api, server: Server, job: Job, phase: str
) -> None:
    made = await a_bound_pod(server, job)
    server.report("mnist-worker-0", {"phase": phase})
    answer = await delete(server, made)
    grace = answer["metadata"]["deletionGracePeriodSeconds"]
    if phase == "Running":
        assert grace == 30
        assert await names(server, Kind.POD) == ["mnist-worker-0"]
    else:
        assert grace == 0
        assert await names(server, Kind.POD) == []
        assert await api.create(Kind.POD, a_worker(job))


@pytest.mark.parametrize("terminating", [False, True])
async def test_by_force_a_pod_goes_without_its_node(
    server: Server, job: Job, *, terminating: bool
) -> None:
    made = await a_bound_pod(server, job)
    if terminating:
        await delete(server, made)
    uid = made["metadata"]["uid"]
    answer = await server.api.delete(Kind.POD, server.namespace, "mnist-worker-0", uid, grace=0)
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await names(server, Kind.POD) == []
    told = server.watched(Kind.POD, lambda seen: seen.what == "DELETED")
    assert told[-1].version == int(answer["metadata"]["resourceVersion"])


async def test_force_spares_another_object_of_the_name(server: Server, job: Job) -> None:
    await a_bound_pod(server, job)
    with pytest.raises(errors.ConflictError):
        await server.api.delete(Kind.POD, server.namespace, "mnist-worker-0", job.uid, grace=0)
    assert await names(server, Kind.POD) == ["mnist-worker-0"]


async def test_a_terminating_pod_that_ends_stays_until_it_is_let_go(
    api: Api, server: Server, job: Job
) -> None:
    await delete(server, await a_bound_pod(server, job))
    server.report("mnist-worker-0", {"phase": "Failed"})
    found = await api.get(Kind.POD, server.namespace, "mnist-worker-0")
    assert found["status"]["phase"] == "Failed"
    assert found["metadata"]["deletionTimestamp"]


async def test_what_a_deleted_job_owned_is_collected_and_nothing_else(
    api: Api, server: Server, job: Job, garbage_collector: None
) -> None:
    assert garbage_collector is None
    service = desired.service(job)
    stranger = a_worker(job, 1)
    del stranger["metadata"]["ownerReferences"]
    for kind, body in ((Kind.SERVICE, service), (Kind.POD, a_worker(job)), (Kind.POD, stranger)):
        await api.create(kind, body)
    await api.delete(Kind.JOB, server.namespace, job.name, job.uid)
    await server.collect_garbage((Kind.SERVICE, "mnist"), (Kind.POD, "mnist-worker-0"))
    assert await names(server, Kind.SERVICE) == []
    assert await names(server, Kind.POD) == ["mnist-worker-1"]


async def test_a_pod_made_for_a_job_that_is_gone_is_collected(
    api: Api, server: Server, job: Job, garbage_collector: None
) -> None:
    assert garbage_collector is None
    await api.delete(Kind.JOB, server.namespace, job.name, job.uid)
    again = await api.create(Kind.JOB, bodies(job)[Kind.JOB])
    await api.create(Kind.POD, a_worker(job))
    await server.collect_garbage((Kind.POD, "mnist-worker-0"))
    assert await names(server, Kind.POD) == []
    assert await names(server, Kind.JOB) == [again["metadata"]["name"]]


async def test_a_collected_pod_on_a_node_gets_its_grace(
    api: Api, server: Server, job: Job, garbage_collector: None
) -> None:
    assert garbage_collector is None
    await api.create(Kind.POD, a_worker(job, 1))
    await a_bound_pod(server, job)
    await api.delete(Kind.JOB, server.namespace, job.name, job.uid)
    await server.collect_garbage((Kind.POD, "mnist-worker-1"))
    told = server.watched(
        Kind.POD, lambda seen: seen.name == "mnist-worker-0" and is_deleting(seen.raw)
    )
    assert told[-1].what == "MODIFIED"
    assert await names(server, Kind.POD) == ["mnist-worker-0"]


def is_deleting(raw: Raw) -> bool:
    return "deletionTimestamp" in raw["metadata"]


async def test_one_call_ends_the_servers_of_one_job_and_nothing_else(
    api: Api, server: Server, job: Job
) -> None:
    def pod(name: str, **labels: str) -> Raw:
        body = a_worker(job)
        body["metadata"] |= {"name": name, "labels": body["metadata"]["labels"] | labels}
        return body

    label = keys.LABEL_ROLE
    kept = [
        pod("chief", **{label: "chief"}),
        pod("of-an-earlier-job", **{keys.LABEL_JOB_UID: "another"}),
        pod("of-another-job", **{keys.LABEL_JOB: "another"}),
    ]
    for body in (*kept, pod("ps", **{label: "ps"}), pod("worker"), pod("bound")):
        await api.create(Kind.POD, body)
    server.bind("bound")
    await api.delete_servers(server.namespace, job.name, job.uid)
    left = {raw["metadata"]["name"]: raw for raw in (await server.listed(Kind.POD))[0]}
    assert set(left) == {*(body["metadata"]["name"] for body in kept), "bound"}
    going = {name for name, raw in left.items() if "deletionTimestamp" in raw["metadata"]}
    assert going == {"bound"}, "its kubelet lets it go"
    await api.delete_servers(server.namespace, job.name, job.uid)
