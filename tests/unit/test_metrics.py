"""What the metrics say."""

from __future__ import annotations

import asyncio
import marshal
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import tftraining_operator
from prometheus_client import CollectorRegistry
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.api.status import GangStatus, QueueStatus, Restart, Status
from tftraining_operator.controller import job_metrics
from tftraining_operator.controller.job_metrics import (
    ENDS,
    FAILED,
    RESTARTS,
    SUCCEEDED,
    JobsCollector,
    Names,
)
from tftraining_operator.controller.kubernetes_api import Call
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.poller import PollResult
from tftraining_operator.core.milestones import Stage
from tftraining_operator.reconcile.errors import ConflictError
from tftraining_operator.reconcile.store import JobKey, Kind, Store
from tftraining_operator.reconcile.workqueue import WorkQueue

from tests.unit.builders import a_condition, a_job, at, stamp

if TYPE_CHECKING:
    from tftraining_operator.api.status import Condition

    from tests.unit.builders import JobBuilder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guide/monitoring.md"

KEY = JobKey("default", "mnist")


def stored(*jobs: JobBuilder) -> Store:
    store = Store()
    for index, job in enumerate(jobs):
        metadata = job.raw["metadata"]
        metadata |= {"uid": f"uid-{index}", "resourceVersion": str(index + 1)}
        store.put(Kind.JOB, job.raw)
    return store


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels, in their order."""
    return {
        tuple(sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == name
    }


def counted(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric that are not 0."""
    return {labels: value for labels, value in samples(registry, name).items() if value}


def waiting(store: Store, seconds: float) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(JobsCollector(store, Names(), lambda: at(seconds)))
    return samples(registry, "tftraining_job_waiting_seconds")


async def everything() -> Metrics:
    """Return metrics each of which has a value."""
    metrics = Metrics()
    metrics.read_leadership(lambda: 1.0)
    metrics.read_shards(2, lambda _shard: True)
    metrics.read_reports(lambda: [3.0, 9.0])
    metrics.read_namespaces(lambda _state: 1)
    metrics.read_jobs(stored(a_job().with_status(state="Starting")))

    async def handle(_key: JobKey) -> float | None:
        return None

    metrics.read_queue(WorkQueue(handle, workers=1))
    await metrics.timed(handle)(KEY)
    metrics.saw_lag(0.002)
    metrics.saw_call(Call("create", "pods", "201", 0.01))
    metrics.saw_event(Kind.POD, None)
    metrics.saw_poll(PollResult.TIMEOUT)
    restart = Restart(reason="Stalled", time=stamp(), counted=True)
    end = {"completion_time": stamp(9), "last_restart": restart, "start_time": stamp()}
    after = Status(**end, conditions=[a_condition(ConditionType.FAILED, reason="PodFailed")])
    raw = a_job().raw
    raw["metadata"]["creationTimestamp"] = stamp()
    metrics.saw_status(raw, Status(), after)
    return metrics


def test_the_page_states_how_many_series_there_can_be() -> None:
    page = PAGE.read_text()
    assert f"{len(job_metrics.STATES)} known states" in page
    assert f"first {job_metrics.MAX_NAMESPACES} with a job" in page
    assert f"{job_metrics.MAX_WAITING}, of jobs that have been waiting" in page
    assert f"adds {len(RESTARTS)} for restarts, {len(ENDS)} for ends" in page


async def test_names_follow_the_conventions() -> None:
    for metric in (await everything()).registry.collect():
        assert re.fullmatch(r"(tftraining|process)(_[a-z]+)+", metric.name), metric.name
        assert metric.documentation.endswith("."), metric.name
        if metric.type == "histogram":
            assert metric.name.endswith("_seconds"), metric.name


def test_the_version_is_that_of_the_package() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tftraining_operator.__version__ == package["version"]
    ((shown, _),) = samples(Metrics().registry, "tftraining_operator_build_info")
    assert shown == package["version"]


def test_a_process_leads_while_it_may_write() -> None:
    left = 0.0
    metrics = Metrics()
    metrics.read_leadership(lambda: left)
    name = "tftraining_operator_leader"
    assert samples(metrics.registry, name) == {(): 0.0}
    left = 0.5
    assert samples(metrics.registry, name) == {(): 1.0}


def test_each_shard_is_shown_by_who_holds_its_lease() -> None:
    held = {1}
    metrics = Metrics()
    metrics.read_shards(3, held.__contains__)
    name = "tftraining_operator_shard_held"
    assert samples(metrics.registry, name) == {("0",): 0, ("1",): 1, ("2",): 0}
    held.add(2)
    assert counted(metrics.registry, name) == {("1",): 1, ("2",): 1}


async def test_passes_are_counted_by_what_came_of_them() -> None:
    metrics = Metrics()

    async def handle(error: Exception | None) -> float | None:
        if error is not None:
            raise error
        return 5.0

    observed = metrics.timed(handle)
    assert await observed(None) == 5.0
    for error in (ConflictError("changed"), ZeroDivisionError()):
        with pytest.raises(type(error)):
            await observed(error)
    count = samples(metrics.registry, "tftraining_operator_reconcile_duration_seconds_count")
    assert count == {("success",): 1, ("api_error",): 1, ("error",): 1}


def test_each_result_of_a_pass_is_counted_from_0() -> None:
    """Else Prometheus would not see the first defect as an increase, nor the alert fire."""
    count = samples(Metrics().registry, "tftraining_operator_reconcile_duration_seconds_count")
    assert count == {("success",): 0, ("api_error",): 0, ("error",): 0}


def test_jobs_are_counted_by_namespace_strategy_and_state() -> None:
    registry = CollectorRegistry()
    store = stored(
        a_job(),
        a_job().named("b", namespace="red").mirrored().with_status(state="Running"),
        a_job().named("c", namespace="red").mirrored().with_status(state="Running"),
        a_job()
        .named("d", namespace="red")
        .with_spec(strategy="Next")
        .with_status(state="Anything"),
        a_job().named("theirs").with_policy(managedBy="example.com/queue"),
    )
    registry.register(JobsCollector(store, Names()))
    assert samples(registry, "tftraining_jobs") == {
        ("default", "ParameterServer", "New"): 1,
        ("red", "Mirrored", "Running"): 2,
        ("red", "other", "other"): 1,
    }


def test_every_state_that_the_operator_writes_by_itself_is_a_label() -> None:
    page = (ROOT / "docs/reasons.md").read_text()
    refused = re.findall(r"^\| `(\w+)` \| .*PodsReady", page, re.MULTILINE)
    never_shown = {"AllReady", "ChiefSucceeded", "PodReplaced"}
    assert set(refused) <= job_metrics.STATES | never_shown
    assert len(refused) > len(never_shown)


async def test_a_scrape_unpacks_some_jobs_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(*(a_job().named(f"job-{number}", uid=f"u{number}") for number in range(300)))
    unpacked: list[object] = []

    def loads(packed: bytes) -> Any:
        unpacked.append(packed)
        return marshal.loads(packed)  # noqa: S302 - what the store has packed

    counted = SimpleNamespace(loads=loads, dumps=marshal.dumps)
    monkeypatch.setattr("tftraining_operator.reconcile.store.marshal", counted)
    in_turns: list[int] = []

    async def count_turns() -> None:
        while True:
            before = len(unpacked)
            await asyncio.sleep(0)
            in_turns.append(len(unpacked) - before)

    collector = JobsCollector(store, Names())
    counting = asyncio.create_task(count_turns())
    await asyncio.sleep(0)
    await collector.count()
    counting.cancel()
    jobs = next(iter(collector.collect()))
    assert sum(sample.value for sample in jobs.samples) == 300
    assert len(unpacked) == 300
    assert max(in_turns) <= 50, "each takes some 70 µs"


def test_only_what_has_changed_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, runs = a_job().named("waits").with_status(), a_job().named("runs").with_status(**RUNS)
    store, now = stored(waits, runs), 100.0
    registry = CollectorRegistry()
    collector = JobsCollector(store, Names(), lambda: at(now))
    registry.register(collector)
    key = ("default", "waits", "Starting")
    assert samples(registry, "tftraining_job_waiting_seconds") == {key: 100}

    packs_only = SimpleNamespace(dumps=marshal.dumps)
    monkeypatch.setattr("tftraining_operator.reconcile.store.marshal", packs_only)
    now = 160.0
    assert samples(registry, "tftraining_job_waiting_seconds") == {key: 160}
    monkeypatch.undo()

    trains = a_job().named("waits").with_status(state="Running", **RUNS).raw
    trains["metadata"] |= {"uid": "uid-0", "resourceVersion": "7"}
    store.put(Kind.JOB, trains)
    assert samples(registry, "tftraining_job_waiting_seconds") == {}
    store.drop(lambda each: each.name == "runs")
    assert samples(registry, "tftraining_jobs") == {("default", "ParameterServer", "Running"): 1}


async def test_a_job_that_goes_during_a_scrape_is_not_counted() -> None:
    store = stored(*(a_job().named(f"job-{number}", uid=f"u{number}") for number in range(300)))
    collector = JobsCollector(store, Names())
    counting = asyncio.create_task(collector.count())
    await asyncio.sleep(0)
    store.drop(lambda _key: True)
    await counting
    jobs = next(iter(collector.collect()))
    assert 0 < sum(sample.value for sample in jobs.samples) < 300


def test_namespaces_beyond_the_limit_share_one_label() -> None:
    names = Names(2)
    assert [names.bounded(name) for name in ("a", "b", "c", "a", "d")] == [
        *("a", "b", "other", "a", "other")
    ]


STALLED = a_condition(ConditionType.STALLED, since=20)
REJECTED = a_condition(ConditionType.ACCEPTED, value=False, since=10)
RUNS: dict[str, Any] = {"first_running_time": stamp(5)}
QUEUE = QueueStatus(name="team", workload="mnist", waiting_since=stamp(30))
GANG = GangStatus(
    scheduler=Gang.POD_GROUP, group="mnist", attempt=0, members=3, waiting_since=stamp(25)
)


def pods_are(reason: str) -> Condition:
    return a_condition(ConditionType.PODS_READY, value=False, reason=reason)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(a_job().with_status(), {"Starting": 100}, id="it has not run yet"),
        pytest.param(a_job().with_status(**RUNS), {}, id="it runs"),
        pytest.param(a_job().with_status(STALLED, **RUNS), {"Stalled": 80}, id="it is stalled"),
        pytest.param(
            a_job().with_status(**RUNS, interrupted_time=stamp(40)),
            {"Interrupted": 60},
            id="it is interrupted",
        ),
        pytest.param(
            a_job().with_status(**RUNS, interrupted_time=stamp(41)), {}, id="but not for long"
        ),
        pytest.param(
            a_job().with_status(REJECTED, start_time=None), {"Rejected": 90}, id="it is rejected"
        ),
        pytest.param(a_job().with_status(start_time=None), {}, id="it is suspended"),
        pytest.param(
            a_job().with_policy(suspend=True).with_status(REJECTED, start_time=None),
            {},
            id="it is rejected and suspended",
        ),
        pytest.param(
            a_job().with_status(chief_completion_time=stamp(50)), {}, id="its training is done"
        ),
        pytest.param(a_job().with_status(completion_time=stamp(50)), {}, id="it has finished"),
        pytest.param(a_job(), {}, id="it is new"),
        pytest.param(
            a_job().with_status(start_time=None, queue=QUEUE), {"Queued": 70}, id="it is queued"
        ),
        pytest.param(
            a_job().with_status(
                queue=QUEUE.model_copy(update={"admitted_time": stamp(35)}), start_time=stamp(36)
            ),
            {"Starting": 64},
            id="Kueue has admitted it",
        ),
        pytest.param(
            a_job().with_status(start_time=None, queue=QUEUE, interrupted_time=stamp(20), **RUNS),
            {"Queued": 70},
            id="it was preempted and is queued again",
        ),
        pytest.param(
            a_job().with_status(pods_are("Queued"), gang=GANG),
            {"Queued": 75},
            id="its gang waits for nodes",
        ),
        pytest.param(
            a_job().with_status(pods_are("QuotaExceeded"), gang=GANG),
            {"Starting": 100},
            id="the pods of its gang are refused",
        ),
        pytest.param(
            a_job().with_status(
                pods_are("ImagePullBackOff"),
                gang=GANG.model_copy(update={"scheduled_time": stamp(30)}),
            ),
            {"Starting": 70},
            id="its gang has nodes, for which it waited",
        ),
        pytest.param(
            a_job().with_status(
                **RUNS,
                interrupted_time=stamp(10),
                gang=GANG.model_copy(update={"scheduled_time": stamp(30)}),
            ),
            {"Interrupted": 70},
            id="the gang of its new attempt has nodes",
        ),
        pytest.param(
            a_job().with_status(
                **RUNS,
                interrupted_time=stamp(20),
                gang=GANG.model_copy(update={"scheduled_time": stamp(4)}),
            ),
            {"Interrupted": 80},
            id="it is interrupted after its gang got nodes",
        ),
        pytest.param(a_job().deleting().with_status(), {}, id="it is being deleted"),
    ],
)
def test_a_job_that_should_train_and_does_not_is_named(
    job: JobBuilder, expected: dict[str, float]
) -> None:
    found = waiting(stored(job), 100)
    assert found == {("default", "mnist", reason): value for reason, value in expected.items()}


def test_the_jobs_that_wait_longest_are_named_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_metrics, "MAX_WAITING", 2)
    jobs = [a_job().named(f"job-{n}").with_status(start_time=stamp(n)) for n in range(4)]
    registry = CollectorRegistry()
    registry.register(JobsCollector(stored(*jobs), Names(), lambda: at(100)))
    assert samples(registry, "tftraining_job_waiting_seconds") == {
        ("default", "job-0", "Starting"): 100,
        ("default", "job-1", "Starting"): 99,
    }
    assert samples(registry, "tftraining_jobs_waiting")["Starting",] == 4


def test_a_namespace_with_many_jobs_that_wait_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_metrics, "MAX_WAITING", 3)
    many = [a_job().named(f"job-{n}", namespace="many").with_status() for n in range(4)]
    stalled = a_job().named("stalled", namespace="many").with_status(STALLED, **RUNS)
    other = a_job().with_status(start_time=stamp(30))
    assert set(waiting(stored(*many, stalled, other), 100)) == {
        ("many", "job-3", "Starting"),
        ("many", "stalled", "Stalled"),
        ("default", "mnist", "Starting"),
    }


def test_a_time_that_is_none_hides_no_other_job() -> None:
    broken = a_job().named("broken").with_status()
    broken.raw["status"]["startTime"] = "yesterday"
    assert set(waiting(stored(broken, a_job().with_status()), 100)) == {
        ("default", "mnist", "Starting")
    }


async def test_a_written_status_is_counted_by_what_it_says_first() -> None:
    found = (await everything()).registry
    assert counted(found, "tftraining_job_restarts_total") == {("default", "Stalled"): 1}
    failed = ("default", "failed", "PodFailed")
    assert counted(found, "tftraining_jobs_finished_total") == {failed: 1}
    lasted = counted(found, "tftraining_job_duration_seconds_sum")
    assert lasted == {("ParameterServer", "failed"): 9}


def test_with_its_first_status_all_that_may_happen_to_a_job_is_counted_from_0() -> None:
    """Else Prometheus would not see the first time as an increase."""
    metrics = Metrics()
    metrics.saw_status(a_job().raw, Status(), Status(state="Starting"))
    found = metrics.registry
    restarts = samples(found, "tftraining_job_restarts_total")
    assert restarts == {("default", reason): 0 for reason in RESTARTS}
    ends = samples(found, "tftraining_jobs_finished_total")
    assert ends == {("default", *end): 0 for end in ENDS}
    lasted = samples(found, "tftraining_job_duration_seconds_count")
    assert lasted == {("ParameterServer", result): 0 for result in (SUCCEEDED, FAILED)}
    stages = samples(found, "tftraining_job_stage_duration_seconds_count")
    assert stages == {("ParameterServer", stage): 0 for stage in Stage}


def test_what_is_counted_from_0_are_the_restarts_and_ends_of_the_table_of_reasons() -> None:
    page = (ROOT / "docs/reasons.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*)", page, re.MULTILINE)

    def reasons(condition: str) -> set[str]:
        return {reason for reason, where in rows if f"{condition}=True" in where}

    assert set(RESTARTS) == reasons("Restarting")
    succeeded = {("succeeded", reason) for reason in reasons("Succeeded")}
    assert set(ENDS) == succeeded | {("failed", reason) for reason in reasons("Failed")}


def test_a_reason_of_somebody_elses_is_no_label_of_its_own() -> None:
    metrics = Metrics()
    restart = Restart(reason="\x1b[31mAnything", time=stamp(), counted=True)
    metrics.saw_status(a_job().raw, Status(), Status(last_restart=restart))
    found = counted(metrics.registry, "tftraining_job_restarts_total")
    assert found == {("default", "other"): 1}
