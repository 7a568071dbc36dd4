"""Whatever a status holds, a pass goes on: what is garbage is repaired, the rest is kept."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Status
from tftraining_operator.core.decide import decide
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job, parse_job
from tftraining_operator.core.plan import make_plan
from tftraining_operator.core.status import compute_status

from tests.unit.builders import IMAGE, a_condition, a_job, a_pod, at, seen, stamp

Raw = dict[str, Any]

CREATED = stamp(-60)
AT = at(60)


def a_status() -> Raw:
    """A status that says something in every field."""
    counts = {"desired": 1, "ready": 1, "active": 1, "succeeded": 0, "failed": 0}
    metrics = [{"name": "loss", "value": "0.25"}]
    failure = {
        "role": "chief",
        "index": 0,
        "pod": "mnist-chief-0",
        "node": "node-1",
        "reason": "OOMKilled",
        "exitCode": 137,
        "message": "killed",
        "time": stamp(10),
    }
    return {
        "observedGeneration": 1,
        "state": "Running",
        "message": "training",
        "conditions": [
            a_condition(kind, value=kind is ConditionType.RUNNING).model_dump(
                mode="json", by_alias=True
            )
            for kind in ConditionType
        ],
        "startTime": stamp(),
        "completionTime": stamp(50),
        "chiefCompletionTime": stamp(40),
        "activeSeconds": 5,
        "firstRunningTime": stamp(1),
        "interruptedTime": stamp(41),
        "trainerImage": IMAGE,
        "podMetadata": {"labels": {"team": "vision"}, "annotations": {"note": "x"}},
        "attempt": 2,
        "chiefUid": "uid-of-mnist-chief-0",
        "restarts": 1,
        "lastRestart": {
            "reason": "ChiefFailed",
            "message": "mnist-chief-0 failed",
            "time": stamp(10),
            "counted": True,
            "notBefore": stamp(20),
            "failureReason": "OOMKilled",
            "failureText": "killed",
            "step": 80,
            "checkpointStep": 60,
            "repeats": 1,
        },
        "failedStarts": 1,
        "gang": {
            "scheduler": "InTree",
            "group": "mnist-12345-0-3",
            "attempt": 0,
            "members": 3,
            "waitingSince": stamp(1),
            "scheduledTime": stamp(2),
        },
        "queue": {
            "name": "research",
            "workload": "mnist-12345",
            "waitingSince": stamp(1),
            "admittedTime": stamp(2),
            "workers": 1,
            "waitSeconds": 1,
            "evictions": 2,
            "preemptions": 1,
            "lastEviction": {"reason": "Preempted", "message": "for others", "time": stamp(0)},
        },
        "replacements": [
            {"pod": "mnist-worker-0", "uid": "uid-0", "count": 2, "time": stamp(15)},
        ],
        "clusterWorkers": 1,
        "replicas": {"chief": "1/1", "worker": "1/1", "ps": "1/1"},
        "roles": [{"name": role.value} | counts for role in Role],
        "excludedWorkers": [0],
        "unavailableWorkers": [{"index": 0, "since": stamp(20)}],
        "workerReplicas": 1,
        "workerSelector": "role=worker",
        "bucket": 17,
        "progress": {
            "step": 100,
            "totalSteps": 200,
            "percent": 50,
            "percentText": "50%",
            "etaSeconds": 10,
            "etaText": "10s",
            "stepsPerSecond": "10",
            "metrics": metrics,
            "loss": "0.25",
            "updatedAt": stamp(50),
            "lastStepTime": stamp(49),
            "resumedStep": 20,
        },
        "progressAttempt": 2,
        "repeatedExamples": 640,
        "lastCheckpoint": {"step": 90, "time": stamp(45), "path": "/checkpoints/ckpt-90"},
        "model": {
            "step": 100,
            "path": "/checkpoints/export/100",
            "formats": ["saved_model", "keras"],
            "metrics": metrics,
        },
        "best": {
            "step": 60,
            "metric": {"name": "val_loss", "value": "0.2"},
            "path": "/checkpoints/best/ckpt-60",
            "exportPath": "/checkpoints/export/best/60",
        },
        "evaluation": {"step": 90, "metrics": metrics, "final": False},
        "lastFailure": failure,
        "firstFailure": copy.deepcopy(failure),
        "lastDisruption": {
            "role": "ps",
            "pod": "mnist-ps-0",
            "reason": "EvictionByEvictionAPI",
            "time": stamp(5),
        },
    }


def stored(status: Any) -> Raw:
    raw = a_job().with_role("worker", minReplicas=1).with_evaluator().raw
    raw["metadata"]["creationTimestamp"] = CREATED
    return raw | {"status": status}


def read(**fields: Any) -> tuple[Raw, tuple[str, ...]]:
    """Read a status with these fields; return it as it is written again, and the repairs."""
    job = parse_job(stored(fields), AT)
    return job.status.as_dict(), job.repairs


def test_a_status_without_damage_is_read_as_it_is() -> None:
    job = parse_job(stored(a_status()), AT)
    assert job.status.as_dict() == a_status()
    assert job.repairs == ()
    assert set(a_status()) == {f.alias for f in Status.model_fields.values()}, "add the new field"


def a_finished_condition(**fields: Any) -> Raw:
    condition = a_condition(ConditionType.FINISHED, since=30)
    return condition.model_dump(mode="json", by_alias=True) | fields


@pytest.mark.parametrize(
    ("fields", "name", "value", "told"),
    [
        pytest.param(
            {"startTime": "garbage"},
            "startTime",
            CREATED,
            f'status.startTime: must be a time in RFC 3339, not "garbage"; set to {CREATED}',
            id="a startTime that is no time is the job's creation",
        ),
        pytest.param(
            {"startTime": "9999-12-31T23:59:59Z"},
            "startTime",
            stamp(60),
            f"status.startTime: 9999-12-31T23:59:59Z is in the future; set to {stamp(60)}",
            id="a time of year 9999 is now",
        ),
        pytest.param(
            {"startTime": stamp(60 + 301)},
            "startTime",
            stamp(60),
            f"status.startTime: {stamp(361)} is in the future; set to {stamp(60)}",
            id="a time more than five minutes ahead is now",
        ),
        pytest.param(
            {"startTime": "1970-01-01T00:00:00Z"},
            "startTime",
            CREATED,
            f"status.startTime: 1970-01-01T00:00:00Z is before the job was created;"
            f" set to {CREATED}",
            id="a start long before the job's creation, which would end it by its deadline",
        ),
        pytest.param(
            {"startTime": stamp(-3600)},
            "startTime",
            CREATED,
            f"status.startTime: {stamp(-3600)} is before the job was created; set to {CREATED}",
            id="a start shortly before the job's creation",
        ),
        pytest.param(
            {"startTime": "2026-01-02"},
            "startTime",
            CREATED,
            f'status.startTime: must be a time in RFC 3339, not "2026-01-02"; set to {CREATED}',
            id="a date is no time",
        ),
        pytest.param(
            {"completionTime": "junk", "conditions": [a_finished_condition()]},
            "completionTime",
            stamp(30),
            f'status.completionTime: must be a time in RFC 3339, not "junk"; set to {stamp(30)}',
            id="the completionTime of a finished job is that of its condition",
        ),
        pytest.param(
            {"completionTime": "junk"},
            "completionTime",
            None,
            'status.completionTime: must be a time in RFC 3339, not "junk"; dropped',
            id="a job that has not finished has no completionTime",
        ),
        pytest.param(
            {"chiefCompletionTime": 7},
            "chiefCompletionTime",
            None,
            'status.chiefCompletionTime: must be a string: write "7" in quotes; dropped',
            id="a chief has not succeeded because of garbage",
        ),
        pytest.param(
            {"firstRunningTime": "junk"},
            "firstRunningTime",
            stamp(60),
            f'status.firstRunningTime: must be a time in RFC 3339, not "junk"; set to {stamp(60)}',
            id="a job that has run has run",
        ),
        pytest.param(
            {"restarts": -5},
            "restarts",
            0,
            "status.restarts: must be at least 0, not -5; set to 0",
            id="a negative counter is 0",
        ),
        pytest.param(
            {"attempt": 2**31},
            "attempt",
            0,
            "status.attempt: must be at most 2147483647, not 2147483648; dropped",
            id="a counter beyond 32 bits is none",
        ),
        pytest.param(
            {"activeSeconds": 10**9},
            "activeSeconds",
            0,
            "status.activeSeconds: 1000000000 s is longer than the job exists; set to 0",
            id="a job was not active before it existed",
        ),
        pytest.param(
            {"lastFailure": a_status()["lastFailure"] | {"role": "boss"}},
            "lastFailure",
            None,
            "status.lastFailure.role: must be one of ps, worker, chief, evaluator,"
            ' not "boss"; dropped status.lastFailure',
            id="a failure of no role is dropped",
        ),
        pytest.param(
            {"lastFailure": a_status()["lastFailure"] | {"time": None}},
            "lastFailure",
            a_status()["lastFailure"] | {"time": stamp(60)},
            f"status.lastFailure.time: is required; set to {stamp(60)}",
            id="a failure without a time was now",
        ),
        pytest.param(
            {"progress": {"step": 5, "updatedAt": stamp(), "stepsPerSecond": "fast"}},
            "progress",
            {"step": 5, "updatedAt": stamp(), "metrics": []},
            'status.progress.stepsPerSecond: must be a decimal number as text, not "fast"; dropped',
            id="a rate that is no number is dropped",
        ),
        pytest.param(
            {"progress": {"step": "five", "updatedAt": stamp()}},
            "progress",
            None,
            'status.progress.step: must be an integer, not "five"; dropped status.progress',
            id="progress without a step is none",
        ),
        pytest.param(
            {"conditions": [a_finished_condition(), 5]},
            "conditions",
            [a_finished_condition()],
            "status.conditions[1]: must be an object, not 5; dropped",
            id="of a list only the bad entry is dropped",
        ),
        pytest.param(
            {"conditions": [a_finished_condition(), a_finished_condition(status="False")]},
            "conditions",
            [a_finished_condition()],
            "status.conditions: type must be unique; given more than once: Finished;"
            " kept the first",
            id="of two conditions of a type the first is kept",
        ),
        pytest.param(
            {"excludedWorkers": [1, -1]},
            "excludedWorkers",
            [1],
            "status.excludedWorkers[1]: must be at least 0, not -1; dropped",
            id="there is no negative index",
        ),
        pytest.param(
            {"unavailableWorkers": [{"index": -1, "since": stamp()}]},
            "unavailableWorkers",
            [],
            "status.unavailableWorkers[0].index: must be at least 0, not -1;"
            " dropped status.unavailableWorkers[0]",
            id="nor a worker with one",
        ),
        pytest.param(
            {"message": "x" * 1025},
            "message",
            "x" * 1024,
            "status.message: has 1025 characters; the maximum is 1024; shortened",
            id="a long text is shortened",
        ),
        pytest.param(
            {"podMetadata": {"labels": {f"team-{i:02}": "x" for i in range(33)}}},
            "podMetadata",
            {"labels": {f"team-{i:02}": "x" for i in range(32)}, "annotations": {}},
            "status.podMetadata.labels: has 33 items; the maximum is 32; shortened",
            id="a map that has too many entries, as of a version that allows more, is shortened",
        ),
        pytest.param(
            {"replicas": "many"},
            "replicas",
            None,
            'status.replicas: must be an object, not "many"; dropped',
            id="an object that is none is dropped",
        ),
    ],
)
def test_garbage_is_repaired_and_told_in_a_sentence(
    fields: Raw, name: str, value: Any, told: str
) -> None:
    found, repairs = read(**fields)
    assert found.get(name) == value
    assert repairs == (told,)


def test_a_job_that_finished_at_no_known_time_finished_now() -> None:
    finished = a_finished_condition(lastTransitionTime=stamp(10**9))
    found, repairs = read(completionTime="junk", conditions=[finished])
    assert found["completionTime"] == found["conditions"][0]["lastTransitionTime"] == stamp(60)
    assert len(repairs) == 2


def test_a_restart_may_be_due_within_an_hour() -> None:
    restart = a_status()["lastRestart"]
    assert read(lastRestart=restart | {"notBefore": stamp(1800)})[1] == ()
    found, repairs = read(lastRestart=restart | {"notBefore": stamp(7200)})
    assert found["lastRestart"]["notBefore"] == stamp(60)
    assert len(repairs) == 1


def test_a_clock_that_is_five_minutes_ahead_is_believed() -> None:
    found, repairs = read(startTime=stamp(60 + 300))
    assert (found["startTime"], repairs) == (stamp(360), ())


def test_what_is_repaired_and_written_needs_no_repair_again() -> None:
    found, repairs = read(startTime="x", restarts=-1, conditions=[{}, a_finished_condition()])
    assert len(repairs) == 3
    assert read(**found) == (found, ())


def test_without_a_creation_time_a_lost_start_is_now() -> None:
    raw = stored({"startTime": "garbage", "activeSeconds": 10**30})
    del raw["metadata"]["creationTimestamp"]
    job = parse_job(raw, AT)
    assert (job.status.start_time, job.status.active_seconds) == (stamp(60), 0)


def test_unknown_fields_are_no_damage() -> None:
    found, repairs = read(novelty={"a": 1}, progress=a_status()["progress"] | {"time": "soon"})
    assert (found["progress"], repairs) == (a_status()["progress"], ())


def test_fields_are_read_by_the_names_of_the_version_before() -> None:
    away = [{"index": 1, "since": stamp()}]
    found, repairs = read(leftOutWorkers=[1], awayWorkers=away)
    assert (found["excludedWorkers"], found["unavailableWorkers"]) == ([1], away)
    assert repairs == ()


def test_the_new_name_of_a_field_counts_where_both_are() -> None:
    assert read(leftOutWorkers=[1], excludedWorkers=[2])[0]["excludedWorkers"] == [2]


_WORDS = st.sampled_from(
    [
        *("", "garbage", "True", "Finished", "chief", "-1", "nan", "1e999", "2026-01-02"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
        *(stamp(), stamp(10**9), stamp(-(10**9))),
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 2**31, 2**63, 10**30, 0.5, -1e300])
    | st.floats(allow_nan=False, allow_infinity=False)
    | _WORDS
)
_GARBAGE = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_WORDS | st.sampled_from(["type", "time", "reason"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def damaged_statuses(draw: Any) -> Raw:
    """A full status with up to six values replaced by garbage, removed or given twice."""
    status = a_status()
    for name in draw(st.sets(st.sampled_from(sorted(status)), max_size=6)):
        del status[name]
    for _ in range(draw(st.integers(1, 6))):
        holder, key = draw(st.sampled_from(list(_places(status))))
        kind = draw(st.sampled_from(["garbage", "garbage", "gone", "twice"]))
        if kind == "twice" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif kind == "gone":
            del holder[key]
        else:
            holder[key] = draw(_GARBAGE)
        if not status:
            break
    return status


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) below a node."""
    pairs = list(node.items() if isinstance(node, dict) else enumerate(node))
    below = [
        place for _, child in pairs if isinstance(child, dict | list) for place in _places(child)
    ]
    return [(node, key) for key, _ in pairs] + below


def a_pass(job: Job) -> Status:
    """Decide, plan and compute the status of a job with all its pods."""
    pods = [
        a_pod(job, Role.CHIEF).running(),
        a_pod(job, Role.WORKER).exited(1, seconds=30),
        a_pod(job, Role.PS).disrupted(),
    ]
    for observed in (seen(job), seen(job, *pods)):
        decision = decide(job, observed, Facts(), AT)
        make_plan(job, observed, decision, IMAGE)
        status = compute_status(job, observed, decision, Facts(), AT, trainer_image=IMAGE)
    return status


@settings(max_examples=150)
@given(damaged_statuses())
def test_no_status_stops_a_job(status: Raw) -> None:
    before = copy.deepcopy(status)
    job = parse_job(stored(status), AT)
    assert status == before, "what is stored must not be touched"
    written = job.status.as_dict()
    assert parse_job(stored(written), AT).repairs == (), "a repair must be good for ever"
    a_pass(job)


@given(st.dictionaries(st.sampled_from(sorted(a_status())), _GARBAGE))
def test_no_status_of_garbage_alone_stops_a_job(status: Raw) -> None:
    a_pass(parse_job(stored(status), AT))
