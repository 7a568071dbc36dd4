"""Events: each thing that happens is told once, and nothing when nothing happens."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import (
    BestCheckpoint,
    CheckpointStatus,
    Condition,
    Evaluation,
    Failure,
    Metric,
    ModelStatus,
    Progress,
    Restart,
    Status,
)
from tftraining_operator.core.events import Actions, Event, events_of

from tests.unit.builders import Raw, a_condition, at, stamp

NOTHING = Actions(created=[], created_service=False, replaced={})
T = ConditionType


def a_status(*conditions: Condition, **fields: Any) -> Status:
    return Status(conditions=list(conditions), **{"start_time": stamp()} | fields)


def no(kind: ConditionType) -> Condition:
    return a_condition(kind, value=False)


def yes(kind: ConditionType, message: str = "") -> Condition:
    return a_condition(kind, message=message)


def not_ready(reason: str, message: str) -> Condition:
    return a_condition(T.PODS_READY, value=False, reason=reason, message=message)


def undeleted(kind: ConditionType, *, value: bool) -> Condition:
    message = "could not delete pod mnist-chief-0: no"
    return a_condition(kind, value=value, reason="DeletionRefused", message=message)


def told(before: Status, after: Status, actions: Actions = NOTHING) -> list[Event]:
    return events_of(before, after, actions, at(65))


def failure(seconds: float = 0, **fields: Any) -> Failure:
    given: Raw = {"role": "chief", "index": 0, "pod": "mnist-chief-0", "reason": "ExitCode"}
    return Failure(**given | {"exit_code": 1, "message": "boom", "time": stamp(seconds)} | fields)


def a_restart(reason: str, message: str = "why") -> Restart:
    return Restart(reason=reason, message=message, time=stamp(), counted=False)


SUCCESS = a_status(
    yes(T.SUCCEEDED, "the chief succeeded"),
    evaluation=Evaluation(step=900, metrics=[Metric(name="accuracy", value="0.97")]),
)


@pytest.mark.parametrize(
    ("before", "after", "reason", "note", "kind"),
    [
        pytest.param(
            a_status(),
            a_status(a_condition(T.ACCEPTED, value=False, reason="InvalidTemplate", message="no")),
            "InvalidTemplate",
            "no",
            "Warning",
            id="a job that is not accepted",
        ),
        pytest.param(
            a_status(no(T.PODS_READY)),
            a_status(yes(T.PODS_READY, "3 of 3 pods are ready")),
            "PodsReady",
            "3 of 3 pods are ready after 65 s",
            "Normal",
            id="all pods are ready",
        ),
        pytest.param(
            a_status(no(T.PODS_READY), restarts=1),
            a_status(yes(T.PODS_READY, "3 of 3 pods are ready"), restarts=1),
            "PodsReady",
            "3 of 3 pods are ready",
            "Normal",
            id="all pods are ready again",
        ),
        pytest.param(
            a_status(no(T.RUNNING)),
            a_status(yes(T.RUNNING)),
            "Running",
            "training (attempt 0)",
            "Normal",
            id="training begins",
        ),
        pytest.param(
            a_status(no(T.PODS_READY), no(T.RUNNING)),
            a_status(yes(T.PODS_READY, "3 of 3 pods are ready"), yes(T.RUNNING)),
            "Running",
            "training (attempt 0); 3 of 3 pods are ready after 65 s",
            "Normal",
            id="training begins as the last pod is ready",
        ),
        pytest.param(
            a_status(no(T.RUNNING), attempt=2, first_running_time=stamp()),
            a_status(
                yes(T.RUNNING),
                attempt=2,
                first_running_time=stamp(),
                last_checkpoint=CheckpointStatus(step=500, path="/c", time=stamp()),
            ),
            "Running",
            "training again (attempt 2)",
            "Normal",
            id="training goes on",
        ),
        pytest.param(
            a_status(),
            a_status(last_failure=failure()),
            "ExitCode",
            "mnist-chief-0: ExitCode (exit code 1): boom",
            "Warning",
            id="a pod fails",
        ),
        pytest.param(
            a_status(last_failure=failure(0)),
            a_status(last_failure=failure(9, exit_code=None, reason="Unschedulable", message="")),
            "Unschedulable",
            "mnist-chief-0: Unschedulable",
            "Warning",
            id="another failure, without words",
        ),
        pytest.param(
            a_status(),
            a_status(attempt=1, last_restart=a_restart("ChiefFailed", "restart 1 of 3")),
            "Restarting",
            "restart 1 of 3",
            "Warning",
            id="a new attempt",
        ),
        pytest.param(
            a_status(attempt=1, last_restart=a_restart("ChiefFailed", "restart 1 of 3")),
            a_status(attempt=2, last_restart=a_restart("ChiefFailed", "restart 2 of 3")),
            "Restarting",
            "restart 2 of 3",
            "Warning",
            id="a new attempt before the last one ran",
        ),
        pytest.param(
            a_status(no(T.SUSPENDED)),
            a_status(yes(T.SUSPENDED, "suspend is true")),
            "Suspended",
            "suspend is true",
            "Normal",
            id="suspended",
        ),
        pytest.param(
            a_status(no(T.SUSPENDED)),
            a_status(undeleted(T.SUSPENDED, value=True)),
            "DeletionRefused",
            "could not delete pod mnist-chief-0: no",
            "Warning",
            id="suspended, though a policy keeps the pods",
        ),
        pytest.param(
            a_status(undeleted(T.SUSPENDED, value=True)),
            a_status(yes(T.SUSPENDED, "suspend is true")),
            "Suspended",
            "suspend is true",
            "Normal",
            id="suspended, when the policy allows it",
        ),
        pytest.param(
            a_status(yes(T.PODS_READY)),
            a_status(undeleted(T.PODS_READY, value=False)),
            "DeletionRefused",
            "could not delete pod mnist-chief-0: no",
            "Warning",
            id="a policy keeps the pods of a job that runs",
        ),
        pytest.param(
            a_status(not_ready("Starting", "0 of 1 pods are ready")),
            a_status(not_ready("ContainerCreating", "check that ConfigMap task exists")),
            "ContainerCreating",
            "check that ConfigMap task exists",
            "Normal",
            id="a pod that waits for longer than usual",
        ),
        pytest.param(
            a_status(yes(T.SUSPENDED)),
            a_status(no(T.SUSPENDED)),
            "Resumed",
            "the job is resumed",
            "Normal",
            id="resumed",
        ),
        pytest.param(
            a_status(),
            a_status(
                chief_completion_time=stamp(), progress=Progress(step=900, updated_at=stamp())
            ),
            "ChiefSucceeded",
            "the chief succeeded after 900 steps",
            "Normal",
            id="the chief is done",
        ),
        pytest.param(
            a_status(no(T.SUCCEEDED)),
            SUCCESS,
            "Succeeded",
            "the chief succeeded; evaluation at step 900: accuracy 0.97; 65 s in all",
            "Normal",
            id="success",
        ),
        pytest.param(
            a_status(no(T.SUCCEEDED)),
            SUCCESS.model_copy(
                update={
                    "chief_completion_time": stamp(),
                    "progress": Progress(step=900, updated_at=stamp()),
                }
            ),
            "Succeeded",
            "the chief succeeded; evaluation at step 900: accuracy 0.97; 900 steps, 65 s in all",
            "Normal",
            id="success as soon as the chief is done",
        ),
        pytest.param(
            a_status(no(T.SUCCEEDED)),
            SUCCESS.model_copy(update={"active_seconds": 600}),
            "Succeeded",
            "the chief succeeded; evaluation at step 900: accuracy 0.97; 665 s in all",
            "Normal",
            id="success of a job that was suspended or preempted",
        ),
        pytest.param(
            a_status(no(T.SUCCEEDED)),
            SUCCESS.model_copy(
                update={
                    "model": ModelStatus(step=9, path="/c/export/9", formats=["keras"]),
                    "best": BestCheckpoint(
                        step=8, path="/c/best/8", metric=Metric(name="val_loss", value="0.2")
                    ),
                }
            ),
            "Succeeded",
            "the chief succeeded; evaluation at step 900: accuracy 0.97; best val_loss 0.2 at "
            "step 8; model (keras) in /c/export/9; 65 s in all",
            "Normal",
            id="success with a model",
        ),
        pytest.param(
            a_status(no(T.FAILED)),
            a_status(yes(T.FAILED, "backoffLimit (3) is used up")),
            "Failed",
            "backoffLimit (3) is used up",
            "Warning",
            id="failure",
        ),
    ],
)
def test_each_thing_is_told_once(
    before: Status, after: Status, reason: str, note: str, kind: str
) -> None:
    (event,) = told(before, after)
    assert (event.reason, event.note, event.type) == (reason, note, kind)
    assert event.action
    assert told(after, after) == [], "and not again"


def created(*names: str, service: bool = False) -> Actions:
    return Actions(created=list(names), created_service=service, replaced={})


@pytest.mark.parametrize(
    ("before", "actions", "note"),
    [
        pytest.param(
            Status(), created("a", "b", service=True), "created 2 pods and the service", id="first"
        ),
        pytest.param(Status(), created("a"), "created 1 pod", id="a single one"),
        pytest.param(a_status(), created("a", "b"), "created a, b", id="later, by name"),
        pytest.param(
            a_status(), created(*"abcdef"), "created a, b, c, d and 2 more", id="not all names"
        ),
    ],
)
def test_what_was_created(before: Status, actions: Actions, note: str) -> None:
    (event,) = told(before, a_status(), actions)
    assert (event.reason, event.note) == ("Created", note)


def test_what_is_replaced_is_told_with_why() -> None:
    why = {"mnist-worker-0": "it has ended", "mnist-worker-1": "it has ended", "mnist-ps-0": "hung"}
    actions = Actions(created=[], created_service=False, replaced=why)
    assert [(e.reason, e.note) for e in told(a_status(), a_status(), actions)] == [
        ("Replacing", "replacing mnist-worker-0, mnist-worker-1: it has ended"),
        ("Replacing", "replacing mnist-ps-0: hung"),
    ]


def restarted(reason: str, message: str = "why") -> Status:
    return a_status(attempt=1, last_restart=a_restart(reason, message))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        pytest.param("Scaled", "Normal", id="scaled"),
        pytest.param("WorkerExcluded", "Warning", id="one is excluded"),
        pytest.param("WorkerRejoined", "Normal", id="one is back"),
    ],
)
def test_a_cluster_that_changes_is_told(reason: str, kind: str) -> None:
    (event,) = told(a_status(), restarted(reason, "scaled from 2 to 4 workers"))
    assert (event.reason, event.type) == (reason, kind)
    assert event.note == (
        "scaled from 2 to 4 workers; restarting the chief from its newest checkpoint"
    )


def test_where_a_chief_resumed_is_told_once() -> None:
    def at_attempt(attempt: int, resumed: int | None) -> Status:
        progress = Progress(step=10, updated_at=stamp(), resumed_step=resumed)
        saved = CheckpointStatus(step=8, time=stamp(), path="/c/ckpt-8")
        return a_status(progress=progress, progress_attempt=attempt, last_checkpoint=saved)

    (event,) = told(at_attempt(0, None), at_attempt(1, 8))
    assert event.reason == "ResumedFromCheckpoint"
    assert event.note == "resumed at step 8 from checkpoint /c/ckpt-8"
    assert told(at_attempt(1, 8), at_attempt(1, 8)) == []
    assert told(at_attempt(0, None), at_attempt(1, None)) == [], "it began anew"
    assert len(told(at_attempt(1, None), at_attempt(1, 8))) == 1, "a script reports while it waits"
    (unknown,) = told(at_attempt(0, None), at_attempt(1, 7))
    assert unknown.note == "resumed at step 7 from a checkpoint"


def test_what_was_repaired_in_the_status_is_told() -> None:
    (event,) = told(a_status(), a_status(), Actions(repairs=["status.restarts was -5"]))
    assert (event.reason, event.note, event.type) == (
        "StatusRepaired",
        "status.restarts was -5",
        "Warning",
    )


def test_the_words_of_an_admission_are_told_to_their_end() -> None:
    words = f"violates PodSecurity: {'allowPrivilegeEscalation, ' * 20}must set securityContext"
    (event,) = told(a_status(), a_status(last_failure=failure(message=words, exit_code=None)))
    assert event.note.endswith("must set securityContext")


def test_a_service_that_is_refused_is_told_although_no_pod_failed() -> None:
    message = "service mnist: QuotaExceeded: exceeded quota: few"
    before = a_status(not_ready("Starting", "0 of 3 pods are ready"))
    refused = a_status(not_ready("QuotaExceeded", message))
    (event,) = told(before, refused)
    assert (event.reason, event.note, event.type) == ("QuotaExceeded", message, "Warning")
    of_a_pod = a_status(
        not_ready("QuotaExceeded", message), last_failure=failure(reason="QuotaExceeded")
    )
    assert len(told(before, of_a_pod)) == 1, "a pod's refusal is its failure already"
    assert told(before.model_copy(update={"last_failure": of_a_pod.last_failure}), of_a_pod) == []


def test_a_failures_log_is_no_part_of_the_note() -> None:
    failed = failure().model_copy(update={"message": "ValueError: no\nline 1\nline 2"})
    (event,) = told(a_status(), a_status(last_failure=failed))
    assert event.note.endswith("ValueError: no")
    assert event.details == "ValueError: no\nline 1\nline 2"
    assert event.pod == failed.pod


def test_a_stall_is_told_when_it_begins() -> None:
    (event,) = told(a_status(no(T.STALLED)), a_status(yes(T.STALLED, "no new step since noon")))
    assert (event.reason, event.type) == ("Stalled", "Warning")
    assert event.note == "no new step since noon"


def test_the_events_of_a_restart_are_in_their_order() -> None:
    before = a_status(yes(T.RUNNING), no(T.FAILED))
    after = a_status(
        no(T.RUNNING),
        yes(T.RESTARTING, "restart 1 of 3"),
        attempt=1,
        last_failure=failure(),
        last_restart=a_restart("ChiefFailed", "restart 1 of 3"),
    )
    assert [event.reason for event in told(before, after)] == ["ExitCode", "Restarting"]
