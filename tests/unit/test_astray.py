"""A job whose status has another bucket than its name's is found by who is told of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tftraining_operator.core.naming import bucket
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.astray import mend_buckets
from tftraining_operator.reconcile.store import JobKey, Kind, Store

from tests.unit.builders import JobBuilder, a_job
from tests.unit.fakes import FakeCluster, Operator, copied

KEY = JobKey("default", "mnist")
OWN = bucket(*KEY)


class Other:
    """The shard whose job it is not, and the cluster."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.store = Store(lambda key: key != KEY)

    def submit(self, status: dict[str, Any], job: JobBuilder | None = None) -> None:
        """Tell the shard of the job as somebody restored it."""
        self.cluster.submit((job or a_job()).raw)
        version = self.raw["metadata"]["resourceVersion"]
        asyncio.run(self.cluster.patch_status(*KEY, version, status))
        self.store.put(Kind.JOB, copied(self.raw))

    @property
    def raw(self) -> dict[str, Any]:
        return self.cluster.job(KEY)

    def mend(self, *, works_there: bool = True) -> None:
        async def works_in(_namespace: str) -> bool:
            return works_there

        asyncio.run(mend_buckets(self.cluster, self.store, works_in))


def test_its_own_bucket_is_written_and_nothing_else() -> None:
    other = Other()
    other.submit({"state": "Running", "bucket": OWN + 1})
    assert other.store.has_astray
    other.mend()
    assert other.raw["status"] == {"state": "Running", "bucket": OWN}
    assert not other.store.has_astray
    assert not other.store.has_job(KEY)


@pytest.mark.parametrize(
    ("status", "job"),
    [
        pytest.param({"state": "Running"}, a_job(), id="a new one"),
        pytest.param({"bucket": OWN}, a_job(), id="its own bucket"),
        pytest.param(
            {"bucket": OWN + 1},
            a_job().with_policy(managedBy="example.com/other"),
            id="another controller's",
        ),
    ],
)
def test_all_others_are_left_alone(status: dict[str, Any], job: JobBuilder) -> None:
    other = Other()
    other.submit(status, job)
    version = other.raw["metadata"]["resourceVersion"]
    assert not other.store.has_astray
    other.mend()
    assert other.raw["metadata"]["resourceVersion"] == version


def test_nothing_is_written_where_another_installation_works() -> None:
    other = Other()
    other.submit({"bucket": OWN + 1})
    other.mend(works_there=False)
    assert other.raw["status"]["bucket"] == OWN + 1


def test_one_that_has_changed_meanwhile_is_told_anew() -> None:
    other = Other()
    other.submit({"bucket": OWN + 1})
    version = other.raw["metadata"]["resourceVersion"]
    asyncio.run(other.cluster.patch_status(*KEY, version, {"bucket": OWN + 2}))
    other.mend()
    assert other.raw["status"]["bucket"] == OWN + 2
    assert not other.store.has_astray


def test_what_could_not_be_written_is_tried_again() -> None:
    other = Other()
    other.submit({"bucket": OWN + 1})

    async def away(_namespace: str) -> bool:
        raise errors.TransientError("the API server is away")

    with pytest.raises(errors.TransientError):
        asyncio.run(mend_buckets(other.cluster, other.store, away))
    other.mend()
    assert other.raw["status"]["bucket"] == OWN


def test_one_that_may_not_be_written_keeps_no_other_waiting() -> None:
    other = Other()
    foreign = [JobKey(name, "mnist") for name in ("allowed", "forbidden", "also-allowed")]
    other.store = Store(lambda _key: False)
    for key in foreign:
        wrong = {"bucket": bucket(*key) + 1}
        other.cluster.submit(a_job().named(key.name, namespace=key.namespace).raw)
        version = other.cluster.job(key)["metadata"]["resourceVersion"]
        asyncio.run(other.cluster.patch_status(*key, version, wrong))
        other.store.put(Kind.JOB, copied(other.cluster.job(key)))

    async def works_in(namespace: str) -> bool:
        if namespace == "forbidden":
            raise errors.ForbiddenError("no", status=403)
        return True

    for _ in range(2):
        with pytest.raises(errors.ForbiddenError):
            asyncio.run(mend_buckets(other.cluster, other.store, works_in))
        mended = [other.cluster.job(key)["status"]["bucket"] == bucket(*key) for key in foreign]
        assert mended == [True, False, True]
        assert other.store.has_astray, "it is tried again"


def test_the_first_status_has_the_bucket_and_none_is_written_for_it_alone() -> None:
    with asyncio.Runner() as runner:
        operator = Operator(FakeCluster(), runner)
        key = operator.cluster.submit(a_job().raw)
        operator.settle()
        first = operator.cluster.job(key)
        assert first["status"]["bucket"] == OWN

        # As an operator left it that knew no such field.
        version = first["metadata"]["resourceVersion"]
        runner.run(operator.cluster.patch_status(*key, version, {"bucket": None}))
        version = operator.cluster.job(key)["metadata"]["resourceVersion"]
        operator.settle()
        assert operator.cluster.job(key)["metadata"]["resourceVersion"] == version
        operator.cluster.run_pods()
        operator.settle()
        assert operator.cluster.status(key).state == "Running"
        assert operator.cluster.job(key)["status"]["bucket"] == OWN
