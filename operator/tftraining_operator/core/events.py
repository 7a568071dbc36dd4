"""Events of a job, from the difference of two statuses and what a pass has done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Condition, Failure, Status
from tftraining_operator.core.conditions import find, find_true, is_true
from tftraining_operator.core.error_text import telling_line
from tftraining_operator.core.gang import UNEXPLAINED, is_waiting
from tftraining_operator.core.naming import join_names
from tftraining_operator.core.text import counted, one_line
from tftraining_operator.core.times import seconds_since


class Action(StrEnum):
    """What the operator was doing, for `action` of an event."""

    ACCEPT = "Accept"
    CREATE = "Create"
    DELETE = "Delete"
    OBSERVE = "Observe"
    RESTART = "Restart"
    SUSPEND = "Suspend"
    RESUME = "Resume"
    FINISH = "Finish"
    REPAIR = "Repair"


class EventType(StrEnum):
    """The two types of Kubernetes' events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    reason: str
    """A Reason, or the cluster's own word for a failure."""
    note: str
    """One line."""
    action: Action
    type: EventType = EventType.NORMAL
    pod: str = ""
    """The pod that it is about, if it is about one."""
    details: str = ""
    """Further lines, such as the end of a log."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What a pass has done."""

    created: Sequence[str] = ()
    """Names of the pods that were created."""
    created_service: bool = False
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Why a pod was deleted only to be created again, by its name."""
    repairs: Sequence[str] = ()
    """What was wrong with the stored status."""

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self.created or self.created_service or self.replaced or self.repairs)

    def __add__(self, later: "Actions") -> "Actions":
        """Return what two passes have done."""
        return Actions(
            created=[*self.created, *later.created],
            created_service=self.created_service or later.created_service,
            replaced={**self.replaced, **later.replaced},
            repairs=[*dict.fromkeys([*self.repairs, *later.repairs])],
        )


def events_of(before: Status, after: Status, actions: Actions, now: datetime) -> list[Event]:
    """Return the events of one pass; none when nothing happened."""
    return [
        *(
            Event(Reason.STATUS_REPAIRED, repair, Action.REPAIR, EventType.WARNING)
            for repair in actions.repairs
        ),
        *_accepted(before, after),
        *_actions(before, actions),
        *_unguarded(before, after, ConditionType.ISOLATED, chosen=Reason.OPEN),
        *_unguarded(before, after, ConditionType.PROTECTED, chosen=Reason.UNPROTECTED),
        *_evicted(before, after),
        *_queued(before, after, now),
        *_admitted(before, after, now),
        *_failed(before, after),
        *_not_ready(before, after),
        *_ready(before, after, now),
        *_transitions(before, after, now),
    ]


def _accepted(before: Status, after: Status) -> list[Event]:
    now_is = find(after.conditions, ConditionType.ACCEPTED)
    was = find(before.conditions, ConditionType.ACCEPTED)
    if now_is is None or (now_is.status == "True" and now_is.reason == Reason.VALID):
        return []
    if was is not None and (was.status, was.message) == (now_is.status, now_is.message):
        return []
    return [Event(now_is.reason, now_is.message, Action.ACCEPT, EventType.WARNING)]


def _actions(before: Status, actions: Actions) -> list[Event]:
    events = []
    for why in dict.fromkeys(actions.replaced.values()):
        names = [name for name, other in actions.replaced.items() if other == why]
        note = f"replacing {join_names(names)}: {why}"
        pod = names[0] if len(names) == 1 else ""
        events.append(Event(Reason.REPLACING, note, Action.DELETE, EventType.WARNING, pod=pod))
    if actions.created:
        service = " and the service" if actions.created_service else ""
        count = len(actions.created)
        if before.start_time is None:
            note = f"created {counted(count, 'pod')}{service}"
        else:
            note = f"created {join_names(actions.created)}{service}"
        events.append(Event(Reason.CREATED, note, Action.CREATE))
    return events


def _unguarded(
    before: Status, after: Status, kind: ConditionType, *, chosen: Reason
) -> list[Event]:
    """Tell that what guards the pods could not be made; not that somebody chose to have none."""
    was, found = (find(status.conditions, kind) for status in (before, after))
    if found is None or found.status == "True" or found.reason == chosen:
        return []
    if was is not None and (was.status, was.reason) == (found.status, found.reason):
        return []
    return [Event(found.reason, found.message, Action.CREATE, EventType.WARNING)]


def _failed(before: Status, after: Status) -> list[Event]:
    failure = after.last_failure
    if failure is None or failure == before.last_failure:
        return []
    note, details = _failure_note(failure)
    return [
        Event(
            failure.reason,
            note,
            Action.OBSERVE,
            EventType.WARNING,
            pod=failure.pod,
            details=details,
        )
    ]


def _failure_note(failure: Failure) -> tuple[str, str]:
    code = f" (exit code {failure.exit_code})" if failure.exit_code is not None else ""
    message = failure.message.strip()
    # Of a log the line that says most; the words of the cluster whole.
    line = telling_line(message) if "\n" in message else message
    note = one_line(f"{failure.pod}: {failure.reason}{code}: {line}".rstrip(": "), 800)
    return note, message if "\n" in message else ""


def _queued(before: Status, after: Status, now: datetime) -> list[Event]:
    was, found = (_is_queued(status) for status in (before, after))
    if found and not was:
        return [Event(Reason.QUEUED, _message(after, ConditionType.PODS_READY), Action.OBSERVE)]
    gang = after.gang
    if gang is None or not is_waiting(before.gang) or is_waiting(gang):
        return []
    waited = seconds_since(gang.waiting_since, now)
    if not was and waited < UNEXPLAINED.total_seconds():
        return []
    placed = f"all {gang.members} pods have" if gang.members > 1 else "its pod has"
    note = f"{placed} a node, after waiting for {round(waited)} s"
    return [Event(Reason.GANG_SCHEDULED, note, Action.OBSERVE)]


def _evicted(before: Status, after: Status) -> list[Event]:
    was = before.queue.last_eviction if before.queue is not None else None
    found = after.queue.last_eviction if after.queue is not None else None
    if found is None or found == was:
        return []
    if after.queue is not None and after.queue.admitted_time is not None:
        note = f"continuing with {counted(after.queue.workers or 0, 'worker')}: {found.message}"
        return [Event(found.reason, one_line(note, 600), Action.OBSERVE, EventType.WARNING)]
    saved = f" (checkpoint at step {after.last_checkpoint.step})" if after.last_checkpoint else ""
    note = one_line(f"stopping the job, which returns to its queue{saved}: {found.message}", 600)
    return [Event(found.reason, note, Action.SUSPEND, EventType.WARNING)]


def _admitted(before: Status, after: Status, now: datetime) -> list[Event]:
    if not _turned(before, after, ConditionType.ADMITTED):
        return _admitted_workers(before, after)
    waited = round(seconds_since(after.queue.waiting_since, now)) if after.queue else 0
    note = f"{_message(after, ConditionType.ADMITTED)}, after waiting for {waited} s"
    return [Event(Reason.ADMITTED, note, Action.OBSERVE)]


def _admitted_workers(before: Status, after: Status) -> list[Event]:
    was, found = before.queue, after.queue
    if was is None or found is None or was.workers is None or found.workers is None:
        return []
    if found.workers <= was.workers:
        return []
    more = counted(found.workers - was.workers, "more worker")
    note = f"quota for {more}, {found.workers} in all"
    return [Event(Reason.ADMITTED, note, Action.OBSERVE)]


def _is_queued(status: Status) -> bool:
    found = find(status.conditions, ConditionType.PODS_READY)
    return found is not None and found.reason == Reason.QUEUED


_HINDRANCES: Mapping[str, tuple[Action, EventType]] = {
    Reason.DELETION_REFUSED: (Action.DELETE, EventType.WARNING),
    # Of the Service: those of pods are failures, which are told.
    Reason.QUOTA_EXCEEDED: (Action.CREATE, EventType.WARNING),
    Reason.REFUSED: (Action.CREATE, EventType.WARNING),
    Reason.NAME_CONFLICT: (Action.CREATE, EventType.WARNING),
    Reason.FLAVOR_UNREADABLE: (Action.OBSERVE, EventType.WARNING),
    # These may be no more than slow.
    "ContainerCreating": (Action.OBSERVE, EventType.NORMAL),
    Reason.NOT_SCHEDULED: (Action.OBSERVE, EventType.NORMAL),
    "PodInitializing": (Action.OBSERVE, EventType.NORMAL),
}
"""Reasons of PodsReady that are told though no pod failed."""


def _not_ready(before: Status, after: Status) -> list[Event]:
    was, found = (find(status.conditions, ConditionType.PODS_READY) for status in (before, after))
    if found is None or found.reason not in _HINDRANCES:
        return []
    known = {was.reason if was else "", after.last_failure.reason if after.last_failure else ""}
    if found.reason in known:
        return []
    return [Event(found.reason, found.message, *_HINDRANCES[found.reason])]


def _ready(before: Status, after: Status, now: datetime) -> list[Event]:
    if _turned(before, after, ConditionType.RUNNING):
        return []  # which tells of it
    note = _readiness(before, after, now)
    return [Event(Reason.PODS_READY, note, Action.OBSERVE)] if note else []


def _readiness(before: Status, after: Status, now: datetime) -> str:
    """Say that all pods became ready, "" if they did not now."""
    if not _turned(before, after, ConditionType.PODS_READY):
        return ""
    took = round(seconds_since(after.start_time, now))
    since = f" after {took} s" if after.restarts == 0 and before.progress is None else ""
    return f"{_message(after, ConditionType.PODS_READY)}{since}"


def _transitions(before: Status, after: Status, now: datetime) -> list[Event]:
    events = []
    if _turned(before, after, ConditionType.RUNNING):
        resumed = before.first_running_time is not None
        note = f"training{' again' if resumed else ''} (attempt {after.attempt})"
        if readiness := _readiness(before, after, now):
            note += f"; {readiness}"
        events.append(Event(Reason.RUNNING, note, Action.OBSERVE))
    events += _resumed_from_checkpoint(before, after)
    if _turned(before, after, ConditionType.STALLED) and after.attempt == before.attempt:
        note = _message(after, ConditionType.STALLED)
        events.append(Event(Reason.STALLED, note, Action.OBSERVE, EventType.WARNING))
    events += _restarted(before, after)
    events += _suspended(before, after)
    if is_true(before, ConditionType.SUSPENDED) and not is_true(after, ConditionType.SUSPENDED):
        events.append(Event(Reason.RESUMED, "the job is resumed", Action.RESUME))
    succeeded = _turned(before, after, ConditionType.SUCCEEDED)
    if before.chief_completion_time is None and after.chief_completion_time and not succeeded:
        steps = f" after {after.progress.step} steps" if after.progress else ""
        note = f"the chief succeeded{steps}"
        events.append(Event(Reason.CHIEF_SUCCEEDED, note, Action.OBSERVE))
    if succeeded:
        events.append(Event(Reason.SUCCEEDED, _success_note(after, now), Action.FINISH))
    if _turned(before, after, ConditionType.FAILED):
        note = _message(after, ConditionType.FAILED)
        events.append(Event(Reason.FAILED, note, Action.FINISH, EventType.WARNING))
    return events


def _suspended(before: Status, after: Status) -> list[Event]:
    was, found = (find_true(status, ConditionType.SUSPENDED) for status in (before, after))
    if found is None or (was is not None and was.reason == found.reason):
        return []
    if found.reason == Reason.DELETION_REFUSED:
        return [Event(found.reason, found.message, Action.DELETE, EventType.WARNING)]
    return [Event(Reason.SUSPENDED, found.message, Action.SUSPEND)]


_OWN_EVENT = frozenset({Reason.SCALED, Reason.WORKER_EXCLUDED, Reason.WORKER_REJOINED})
"""Restarts that are told by their reason: nothing has failed."""


def _restarted(before: Status, after: Status) -> list[Event]:
    restart = after.last_restart
    if restart is None or restart == before.last_restart:
        return []
    if restart.reason in _OWN_EVENT:
        warns = restart.reason == Reason.WORKER_EXCLUDED
        kind = EventType.WARNING if warns else EventType.NORMAL
        note = f"{restart.message}; restarting the chief from its newest checkpoint"
        return [Event(restart.reason, note, Action.RESTART, kind)]
    failure = after.last_failure
    pod = failure.pod if failure is not None and failure != before.last_failure else ""
    return [Event(Reason.RESTARTING, restart.message, Action.RESTART, EventType.WARNING, pod=pod)]


def _resumed_from_checkpoint(before: Status, after: Status) -> list[Event]:
    progress = after.progress
    if progress is None or progress.resumed_step is None:
        return []
    # The chief of each attempt tells once where it began: a script after its first report.
    known = before.progress.resumed_step if before.progress is not None else None
    if known is not None and before.progress_attempt == after.progress_attempt:
        return []
    saved, where = after.last_checkpoint, "a checkpoint"
    if saved is not None and saved.step == progress.resumed_step:
        where = f"checkpoint {saved.path}"
    note = f"resumed at step {progress.resumed_step} from {where}"
    return [Event(Reason.RESUMED_FROM_CHECKPOINT, note, Action.OBSERVE)]


def _success_note(after: Status, now: datetime) -> str:
    note = _message(after, ConditionType.SUCCEEDED)
    if after.evaluation is not None and after.evaluation.metrics:
        values = ", ".join(f"{m.name} {m.value}" for m in after.evaluation.metrics)
        note += f"; evaluation at step {after.evaluation.step}: {values}"
    if after.best is not None:
        best = after.best
        note += f"; best {best.metric.name} {best.metric.value} at step {best.step}"
    if after.model is not None:
        note += f"; model ({', '.join(after.model.formats)}) in {after.model.path}"
    steps = f"{after.progress.step} steps, " if after.progress is not None else ""
    seconds = after.active_seconds + round(seconds_since(after.start_time, now))
    return f"{note}; {steps}{seconds} s in all"


def _turned(before: Status, after: Status, kind: ConditionType) -> bool:
    return is_true(after, kind) and not is_true(before, kind)


def _message(status: Status, kind: ConditionType) -> str:
    found: Condition | None = find(status.conditions, kind)
    return found.message if found else ""
