"""What is made, what is refused, and in which words of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.times import parse
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind

from tests.protocol.servers import KINDS
from tests.unit.builders import IMAGE, Raw, a_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.core.job import Job

    from tests.protocol.servers import Api, Server

    Change = Callable[[Raw], object]


A_READER: Raw = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tftraining-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "tftraining-operator"}},
}


def a_worker(job: Job, index: int = 0) -> Raw:
    return desired.pod(job, Role.WORKER, index, 0, IMAGE)


def bodies(job: Job) -> dict[Kind, Raw]:
    return {
        Kind.JOB: a_job().named("other", namespace=job.namespace).raw,
        Kind.POD: a_worker(job),
        Kind.SERVICE: desired.service(job),
        Kind.NETWORK_POLICY: desired.network_policy(job, [A_READER]),
        Kind.DISRUPTION_BUDGET: desired.disruption_budget(job),
    }


async def names(server: Server, kind: Kind) -> list[str]:
    items, _ = await server.listed(kind)
    return [raw["metadata"]["name"] for raw in items]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_made_is_answered_with_its_identity(
    api: Api, server: Server, job: Job, kind: Kind
) -> None:
    body = bodies(job)[kind]
    made = await api.create(kind, body)
    metadata = made["metadata"]
    assert made["kind"] == kind.value
    assert metadata["name"] == body["metadata"]["name"]
    assert metadata["namespace"] == server.namespace
    assert metadata["uid"] not in ("", job.uid)
    assert int(metadata["resourceVersion"]) > 0
    assert parse(metadata["creationTimestamp"]).tzinfo is not None
    assert "deletionTimestamp" not in metadata
    assert metadata.get("labels") == body["metadata"].get("labels")
    found = await api.get(kind, server.namespace, metadata["name"])
    for each in (found, made):
        each["metadata"].pop("managedFields", None)
    assert found == made


@pytest.mark.parametrize("kind", [Kind.NETWORK_POLICY, Kind.DISRUPTION_BUDGET])
async def test_what_is_corrected_when_it_differs_is_stored_as_it_was_sent(
    api: Api, job: Job, kind: Kind
) -> None:
    body = bodies(job)[kind]
    assert (await api.create(kind, body))["spec"] == body["spec"]


async def test_a_new_pod_is_pending_and_on_no_node(api: Api, job: Job) -> None:
    made = await api.create(Kind.POD, a_worker(job))
    assert made["status"]["phase"] == "Pending"
    assert "nodeName" not in made["spec"]


async def test_a_new_job_has_generation_1_and_no_status(api: Api, server: Server, job: Job) -> None:
    raw = await api.get(Kind.JOB, server.namespace, job.name)
    assert raw["metadata"]["generation"] == 1
    assert not raw.get("status")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_name_is_given_once(api: Api, server: Server, job: Job, kind: Kind) -> None:
    made = await api.create(kind, bodies(job)[kind])
    with pytest.raises(errors.AlreadyExistsError) as refused:
        await api.create(kind, bodies(job)[kind])
    assert refused.value.status == 409
    assert made["metadata"]["name"] in refused.value.message
    found = await api.get(kind, server.namespace, made["metadata"]["name"])
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_name_is_free_again_and_then_means_another_object(
    api: Api, server: Server, job: Job, kind: Kind
) -> None:
    first = (await api.create(kind, bodies(job)[kind]))["metadata"]
    await api.delete(kind, server.namespace, first["name"], first["uid"])
    second = (await api.create(kind, bodies(job)[kind]))["metadata"]
    assert second["uid"] != first["uid"]
    assert int(second["resourceVersion"]) > int(first["resourceVersion"])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_there_is_not_found(
    api: Api, server: Server, job: Job, kind: Kind
) -> None:
    assert job.name != "absent"
    with pytest.raises(errors.NotFoundError) as missing:
        await api.get(kind, server.namespace, "absent")
    assert missing.value.status == 404


async def test_a_dry_run_makes_nothing(api: Api, server: Server, job: Job) -> None:
    answer = await api.create(Kind.POD, a_worker(job), dry_run=True)
    assert answer["metadata"]["name"] == "mnist-worker-0"
    assert await names(server, Kind.POD) == []
    with pytest.raises(errors.NotFoundError):
        await api.get(Kind.POD, server.namespace, "mnist-worker-0")


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda pod: pod["spec"].update(nodeSelektor={}), "spec.nodeSelektor"),
        (
            lambda pod: pod["spec"]["containers"][0].update(imagePullPolice="Always"),
            "spec.containers[0].imagePullPolice",
        ),
        (
            lambda pod: pod["spec"]["containers"][0]["resources"].update(limit={}),
            "spec.containers[0].resources.limit",
        ),
    ],
    ids=["in the spec", "in a container", "deeper"],
)
async def test_a_field_that_is_unknown_is_refused_by_its_path(
    api: Api, server: Server, job: Job, change: Change, path: str, *, dry_run: bool
) -> None:
    pod = a_worker(job)
    pod["spec"]["containers"][0].setdefault("resources", {})
    change(pod)
    with pytest.raises(errors.InvalidObjectError) as refused:
        await api.create(Kind.POD, pod, dry_run=dry_run)
    assert f'unknown field "{path}"' in refused.value.message
    assert await names(server, Kind.POD) == []


async def test_a_pod_with_all_that_templates_carry_is_no_typo(api: Api, job: Job) -> None:
    pod = a_worker(job)
    pod["metadata"]["annotations"] = {"any/thing": "goes"}
    pod["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    pod["spec"]["volumes"] = [
        *pod["spec"].get("volumes", []),
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "settings", "configMap": {"name": "settings", "items": []}},
    ]
    pod["spec"]["containers"][0] |= {
        "resources": {"limits": {"cpu": 1, "memory": "1Gi", "example.com/gpu": "1"}},
        "livenessProbe": {"tcpSocket": {"port": "cluster"}},
    }
    assert await api.create(Kind.POD, pod, dry_run=True)


async def test_beyond_the_quota_nothing_is_made(api: Api, server: Server, job: Job) -> None:
    server.allow_pods(1)
    await api.create(Kind.POD, a_worker(job))
    with pytest.raises(errors.ForbiddenError, match="exceeded quota") as refused:
        await api.create(Kind.POD, a_worker(job, 1))
    assert refused.value.status == 403
    assert await names(server, Kind.POD) == ["mnist-worker-0"]


async def test_a_full_quota_is_told_before_a_taken_name(api: Api, server: Server, job: Job) -> None:
    server.allow_pods(1)
    await api.create(Kind.POD, a_worker(job))
    with pytest.raises(errors.ForbiddenError):
        await api.create(Kind.POD, a_worker(job))


async def test_a_dry_run_meets_the_quota_as_well(api: Api, server: Server, job: Job) -> None:
    server.allow_pods(0)
    with pytest.raises(errors.ForbiddenError):
        await api.create(Kind.POD, a_worker(job), dry_run=True)


@pytest.mark.parametrize("kind", [Kind.POD, Kind.SERVICE])
async def test_a_namespace_that_is_being_deleted_takes_nothing_new(
    api: Api, server: Server, job: Job, kind: Kind
) -> None:
    server.close()
    with pytest.raises(errors.ForbiddenError, match="being terminated"):
        await api.create(kind, bodies(job)[kind])
    assert await api.get(Kind.JOB, server.namespace, job.name), "what is there stays for now"
