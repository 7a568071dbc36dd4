"""Which job a record of the log names, in JSON."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pythonjsonlogger.json import JsonFormatter
from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.controller import logs
from tftraining_operator.controller.recorder import Recorder
from tftraining_operator.core.events import Action, Event
from tftraining_operator.reconcile.store import JobKey
from tftraining_operator.reconcile.workqueue import WorkQueue

from tests.unit.builders import Raw, a_job
from tests.unit.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = JobKey("default", "mnist")
OTHER = JobKey("red", "other")


@contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """Collect what the operator logs, as the lines of its JSON."""
    stream, records = io.StringIO(), list[dict[str, Any]]()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(logs.JobFields())
    logger = logging.getLogger("tftraining_operator")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        records.extend(json.loads(line) for line in stream.getvalue().splitlines())


def a_raw_job(attempt: int) -> Raw:
    return a_job().with_status(attempt=attempt).raw


async def test_what_a_queue_says_of_a_failed_pass_names_its_job_and_no_other() -> None:
    jobs = {KEY: a_raw_job(2), OTHER: None}
    seen: set[JobKey] = set()
    done = asyncio.Event()

    async def handle(key: JobKey) -> float | None:
        logs.begin_job(key, jobs[key])
        await asyncio.sleep(0)
        if key not in seen:
            seen.add(key)
            raise ZeroDivisionError
        if len(seen) == len(jobs):
            done.set()
        return None

    with logged() as records:
        queue = WorkQueue(handle, workers=1)
        working = asyncio.create_task(queue.run())
        for key in jobs:
            queue.add(key)
        await done.wait()
        working.cancel()
    found = [{name: each.get(name) for name in ("job", "uid", "attempt")} for each in records]
    assert found == [
        {"job": "mnist", "uid": "uid-1", "attempt": 2},
        {"job": "other", "uid": None, "attempt": None},
    ]
    assert {each["logger"] for each in records} == {"tftraining_operator.reconcile.workqueue"}


@pytest.mark.parametrize(
    ("pod", "fields"),
    [
        pytest.param("mnist-worker-1", {"pod": "mnist-worker-1", "role": "worker"}, id="of a pod"),
        pytest.param("", {}, id="of the job"),
    ],
)
async def test_an_event_names_its_pod_and_its_role(pod: str, fields: dict[str, str]) -> None:
    meta = ObjectMeta.model_validate(a_job().raw["metadata"])
    cluster = FakeCluster()
    with logged() as records:
        recorder = Recorder(cluster, "test", cluster.clock)
        await recorder(meta, [Event("OOMKilled", "died", Action.OBSERVE, pod=pod)])
    (record,) = records
    assert {name: record[name] for name in ("pod", "role") if name in record} == fields


async def test_what_a_tenant_wrote_stays_in_one_line_and_is_bounded() -> None:
    meta = ObjectMeta.model_validate(a_job().raw["metadata"])
    cluster = FakeCluster()
    forged = '\x1b[31mdied", "job": "theirs' + "x" * 9000 + '"}\r\n{"message": "all is well"}'
    with logged() as records:
        recorder = Recorder(cluster, "test", cluster.clock)
        with logs.about(job="mnist", role=Role.CHIEF.value):
            await recorder(meta, [Event("Why\n{}", forged, Action.OBSERVE)])
    (record,) = records
    assert record["job"] == "mnist"
    start = 'default/mnist: Why {}: died", "job": "theirsxxx'
    assert record["message"].startswith(start)
    assert len(record["message"]) < 350


async def test_fields_end_with_their_block() -> None:
    with logged() as records:
        with logs.about(job="mnist"):
            logging.getLogger("tftraining_operator").warning("one")
        logging.getLogger("tftraining_operator").warning("two")
    assert [each.get("job") for each in records] == ["mnist", None]
