"""Events of a job, told from the difference of two statuses: a story for `kubectl describe`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Condition, Failure, Status
from tftraining_operator.core.conditions import find, is_true
from tftraining_operator.core.naming import join_names
from tftraining_operator.core.times import seconds_since

_NORMAL = "Normal"
_WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the story."""

    reason: str
    note: str
    action: str
    type: str = _NORMAL


@dataclass(frozen=True, slots=True)
class Actions:
    """What a pass has done."""

    created: list[str]
    """Names of the pods that were created."""
    created_service: bool
    replaced: Mapping[str, str]
    """Why a pod was deleted only to be made again, by its name."""


def events_of(before: Status, after: Status, actions: Actions, now: datetime) -> list[Event]:
    """Return the events of one pass; none when nothing happened."""
    return [
        *_accepted(before, after),
        *_deeds(before, actions),
        *_failed(before, after),
        *_ready(before, after, now),
        *_transitions(before, after, now),
    ]


def _accepted(before: Status, after: Status) -> list[Event]:
    now_is = find(after.conditions, ConditionType.ACCEPTED)
    was = find(before.conditions, ConditionType.ACCEPTED)
    if now_is is None or now_is.status == "True":
        return []
    if was is not None and (was.status, was.message) == (now_is.status, now_is.message):
        return []
    return [Event(now_is.reason, now_is.message, "Accept", _WARNING)]


def _deeds(before: Status, actions: Actions) -> list[Event]:
    events = []
    if actions.created:
        what = " and the service" if actions.created_service else ""
        count = len(actions.created)
        if before.start_time is None:
            note = f"created {count} pod{'s' if count > 1 else ''}{what}"
        else:
            note = f"created {join_names(actions.created)}{what}"
        events.append(Event("Created", note, "Create"))
    for why in dict.fromkeys(actions.replaced.values()):
        names = join_names([name for name, other in actions.replaced.items() if other == why])
        events.append(Event("Replacing", f"replacing {names}: {why}", "Delete", _WARNING))
    return events


def _failed(before: Status, after: Status) -> list[Event]:
    failure = after.last_failure
    if failure is None or failure == before.last_failure:
        return []
    return [Event(failure.reason, _failure_note(failure), "Observe", _WARNING)]


def _failure_note(failure: Failure) -> str:
    code = f" (exit code {failure.exit_code})" if failure.exit_code is not None else ""
    return f"{failure.pod}: {failure.reason}{code}: {failure.message}".rstrip(": ")


def _ready(before: Status, after: Status, now: datetime) -> list[Event]:
    if not _turned(before, after, ConditionType.PODS_READY):
        return []
    found = find(after.conditions, ConditionType.PODS_READY)
    took = round(seconds_since(after.start_time, now))
    since = f" after {took} s" if after.restarts == 0 and before.progress is None else ""
    return [Event("PodsReady", f"{found.message if found else ''}{since}", "Observe")]


def _transitions(before: Status, after: Status, now: datetime) -> list[Event]:
    events = []
    if _turned(before, after, ConditionType.RUNNING):
        # From which step only its first report tells: status.progress.resumedStep.
        source = " from the newest checkpoint" if after.last_checkpoint else ""
        note = "training" if after.attempt == 0 else f"training goes on{source}"
        events.append(Event("Running", f"{note} (attempt {after.attempt})", "Observe"))
    events += _membership(before.excluded_workers, after.excluded_workers)
    if _turned(before, after, ConditionType.STALLED) and after.attempt == before.attempt:
        events.append(Event("Stalled", _message(after, ConditionType.STALLED), "Observe", _WARNING))
    if after.attempt > before.attempt:
        note = _message(after, ConditionType.RESTARTING)
        events.append(Event("Restarting", note, "Restart", _WARNING))
    if _turned(before, after, ConditionType.SUSPENDED):
        events.append(Event("Suspended", _message(after, ConditionType.SUSPENDED), "Suspend"))
    if is_true(before, ConditionType.SUSPENDED) and not is_true(after, ConditionType.SUSPENDED):
        events.append(Event("Resumed", "the job is resumed", "Resume"))
    if before.chief_completion_time is None and after.chief_completion_time is not None:
        steps = f" after {after.progress.step} steps" if after.progress else ""
        events.append(Event("ChiefSucceeded", f"the chief succeeded{steps}", "Observe"))
    if _turned(before, after, ConditionType.SUCCEEDED):
        events.append(Event("Succeeded", _success_note(after, now), "Finish"))
    if _turned(before, after, ConditionType.FAILED):
        note = _message(after, ConditionType.FAILED)
        events.append(Event("Failed", note, "Finish", _WARNING))
    return events


def _membership(before: Sequence[int], after: Sequence[int]) -> list[Event]:
    events = []
    if left := [f"worker-{i}" for i in after if i not in before]:
        note = f"the chief restarts without {join_names(left)}, which stays away"
        events.append(Event("WorkerExcluded", note, "Restart", _WARNING))
    if back := [f"worker-{i}" for i in before if i not in after]:
        events.append(
            Event("WorkerRejoined", f"the chief restarts with {join_names(back)}", "Restart")
        )
    return events


def _success_note(after: Status, now: datetime) -> str:
    note = _message(after, ConditionType.SUCCEEDED)
    if after.evaluation is not None and after.evaluation.metrics:
        values = ", ".join(f"{m.name} {m.value}" for m in after.evaluation.metrics)
        note += f"; evaluation at step {after.evaluation.step}: {values}"
    return f"{note}; {round(seconds_since(after.start_time, now))} s in all"


def _turned(before: Status, after: Status, kind: ConditionType) -> bool:
    return is_true(after, kind) and not is_true(before, kind)


def _message(status: Status, kind: ConditionType) -> str:
    found: Condition | None = find(status.conditions, kind)
    return found.message if found else ""
