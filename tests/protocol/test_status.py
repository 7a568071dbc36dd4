"""The one thing that the operator writes of a job: merged, guarded, and apart from the spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.status import Condition, ConditionStatus
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind

from tests.unit.builders import Raw, a_job

if TYPE_CHECKING:
    from tftraining_operator.core.job import Job

    from tests.protocol.servers import Api, Seen, Server


class Writer:
    """Writes a job's status as the operator does, always over the version that it read last."""

    def __init__(self, server: Server, job: Job) -> None:
        self._server = server
        self._name = job.name
        self.raw: Raw = {}

    async def read(self) -> Raw:
        self.raw = await self._server.api.get(Kind.JOB, self._server.namespace, self._name)
        return self.raw

    async def write(self, version: str | None = None, **patch: Any) -> Raw:
        if not self.raw:
            await self.read()
        self.raw = await self._server.api.patch_status(
            self._server.namespace, self._name, version or self.version, patch
        )
        return self.raw

    @property
    def version(self) -> str:
        return str(self.raw["metadata"]["resourceVersion"])

    @property
    def status(self) -> Raw:
        found: Raw = self.raw["status"]
        return found


@pytest.fixture
def writer(server: Server, job: Job) -> Writer:
    return Writer(server, job)


def a_condition(kind: str) -> Raw:
    return Condition(
        type=kind,
        status=ConditionStatus.TRUE,
        reason="Tested",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=1,
    ).model_dump(mode="json", by_alias=True)


async def test_a_patch_is_merged_into_what_is_there(writer: Writer) -> None:
    await writer.write(state="Running", restarts=1, replicas={"worker": "1/2", "ps": "1/1"})
    await writer.write(restarts=2, replicas={"worker": "2/2"})
    expected = {
        "state": "Running",
        "restarts": 2,
        "replicas": {"worker": "2/2", "ps": "1/1"},
    }
    assert defaults_aside(writer.status) == expected
    assert defaults_aside((await writer.read())["status"]) == expected


async def test_null_takes_a_field_away(writer: Writer) -> None:
    await writer.write(state="Running", replicas={"worker": "1/2", "ps": "1/1"})
    await writer.write(state=None, replicas={"ps": None}, message=None)
    assert defaults_aside(writer.status) == {"replicas": {"worker": "1/2"}}
    await writer.write(replicas=None)
    assert defaults_aside(writer.status) == {}


async def test_a_list_is_replaced_as_a_whole(writer: Writer) -> None:
    await writer.write(conditions=[a_condition("Accepted"), a_condition("Running")])
    await writer.write(conditions=[a_condition("Failed")])
    assert writer.status["conditions"] == [a_condition("Failed")]


async def test_a_stale_version_is_a_conflict_and_changes_nothing(writer: Writer) -> None:
    stale = (await writer.read())["metadata"]["resourceVersion"]
    await writer.write(state="Running")
    with pytest.raises(errors.ConflictError) as refused:
        await writer.write(stale, state="Failed", restarts=7)
    assert refused.value.status == 409
    assert defaults_aside((await writer.read())["status"]) == {"state": "Running"}


async def test_a_users_edit_makes_a_version_stale(server: Server, writer: Writer) -> None:
    stale = (await writer.read())["metadata"]["resourceVersion"]
    server.edit("mnist", lambda spec: spec["worker"].update(replicas=2))
    with pytest.raises(errors.ConflictError):
        await writer.write(stale, state="Running")


async def test_each_change_has_a_newer_version(writer: Writer) -> None:
    versions = []
    for restarts in (1, 2, 3):
        await writer.write(restarts=restarts)
        versions.append(int(writer.version))
    assert versions == sorted(set(versions))


async def test_what_changes_nothing_is_no_new_version(server: Server, writer: Writer) -> None:
    await writer.write(state="Running", conditions=[a_condition("Accepted")])
    before = writer.version
    await writer.write(state="Running", conditions=[a_condition("Accepted")], message=None)
    assert writer.version == before
    await writer.write(state="Failed")
    told = server.watched(
        Kind.JOB, lambda seen: seen.raw.get("status", {}).get("state") == "Failed"
    )
    assert [seen.what for seen in told] == ["ADDED", "MODIFIED", "MODIFIED"]


async def test_a_status_touches_neither_spec_nor_generation(writer: Writer) -> None:
    before = await writer.read()
    after = await writer.write(state="Running")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_an_edit_of_the_spec_is_a_new_generation_and_keeps_the_status(
    server: Server, writer: Writer
) -> None:
    await writer.write(state="Running")
    after = server.edit("mnist", lambda spec: spec["worker"].update(replicas=3))
    assert after["metadata"]["generation"] == 2
    assert int(after["metadata"]["resourceVersion"]) > int(writer.version)
    assert after["spec"]["worker"]["replicas"] == 3
    assert defaults_aside(after["status"]) == {"state": "Running"}


async def test_an_edit_that_changes_nothing_is_no_new_generation(
    server: Server, writer: Writer
) -> None:
    await writer.read()
    before = writer.version
    after = server.edit("mnist", lambda _spec: None)
    assert after["metadata"]["generation"] == 1
    assert after["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(
    "patch",
    [
        {"state": "x" * 33},
        {"state": 1},
        {"restarts": "one"},
        {"conditions": [{"type": "Accepted"}]},
        {"conditions": [{**a_condition("Accepted"), "status": "Maybe"}]},
        {"roles": "none"},
    ],
    ids=["too long", "no text", "no number", "incomplete", "no truth", "no list"],
)
async def test_what_the_crd_refuses_is_invalid_and_changes_nothing(
    writer: Writer, patch: Raw
) -> None:
    await writer.write(state="Running")
    before = writer.version
    with pytest.raises(errors.InvalidObjectError) as refused:
        await writer.write(**patch)
    assert refused.value.status == 422
    assert (await writer.read())["metadata"]["resourceVersion"] == before


async def test_the_longest_texts_are_counted_in_characters(writer: Writer) -> None:
    await writer.write(state="ü" * 32)
    assert writer.status["state"] == "ü" * 32


async def test_a_job_that_is_gone_is_not_found(api: Api, job: Job, writer: Writer) -> None:
    await writer.read()
    await api.delete(Kind.JOB, job.namespace, job.name, job.uid)
    with pytest.raises(errors.NotFoundError):
        await writer.write(state="Running")


async def test_a_job_made_again_is_not_written_with_its_predecessors_version(
    api: Api, job: Job, writer: Writer
) -> None:
    await writer.write(state="Running")
    await api.delete(Kind.JOB, job.namespace, job.name, job.uid)
    await api.create(Kind.JOB, a_job().named(job.name, namespace=job.namespace).raw)
    with pytest.raises(errors.ConflictError):
        await writer.write(state="Failed")
    assert not (await writer.read()).get("status")


def state_of(seen: Seen) -> str | None:
    found: str | None = seen.raw.get("status", {}).get("state")
    return found


def defaults_aside(status: Raw) -> Raw:
    """A status without the fields that stand at their default, which the CRD may fill in."""
    return {key: value for key, value in status.items() if value not in (0, [], None, {})}
