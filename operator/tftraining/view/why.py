"""The first line about a job: what it does, or why it does not run.

It repeats what the operator wrote into the status, and makes no diagnosis of its own. Where the
status only says that pods are not ready, the operator's own functions read the pods (core/startup
and core/cause by core/observed), and what the kubelet says of them in events is added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Status
from tftraining_operator.core.advice import with_advice
from tftraining_operator.core.conditions import find, find_true, is_true
from tftraining_operator.core.error_text import telling_line
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import InvalidJobError, Job, parse_job
from tftraining_operator.core.messages import describe_cause, pods_not_ready
from tftraining_operator.core.observed import observe
from tftraining_operator.core.queueing import waits
from tftraining_operator.core.text import one_line
from tftraining_operator.core.times import eta_text, parse

from tftraining.view.table import UNSEEN, age
from tftraining.view.training import rates

_Object = dict[str, Any]

_LIMIT = 1200
_KUBELETS_WORD_IS_BETTER = frozenset({"ContainerCreating", "PodInitializing"})
"""Causes that only say that something takes long; an event may say what."""
_UNOBSERVED = timedelta(seconds=10)
"""How long an operator may take to see a job."""


@dataclass(frozen=True, slots=True)
class Why:
    """State of a job in one word, and the reason for it."""

    state: str
    text: str

    def __str__(self) -> str:
        return f"{self.state}: {self.text}" if self.text else self.state


def why(
    raw: _Object,
    pods: Sequence[_Object],
    events: Sequence[_Object],
    now: datetime,
    *,
    claims: Sequence[_Object] = (),
) -> Why:
    """Return what a job does, or why it does not run, or why it failed.

    `raw` is the job, `pods` its pods, `events` what happened to them, newest last, and `claims` the
    PersistentVolumeClaims of pods without a node, as the API server returns them.
    """
    try:
        job = parse_job(raw, now)
    except InvalidJobError as error:
        return Why(Reason.INVALID_SPEC, one_line(str(error), _LIMIT))
    found = _unseen(job, raw, now) or _of_seen(job, pods, events, now)
    generation = job.status.observed_generation
    # MultiKueue copies that of the job in another cluster, which begins anew.
    if generation is not None and generation < job.meta.generation and not job.dispatched:
        text = f"{found.text} (the operator has not acted on the latest change of the spec)"
        found = Why(found.state, text)
    if unbound := _unbound(claims):
        found = Why(found.state, f"{found.text}; {unbound}")
    return Why(found.state, one_line(found.text, _LIMIT))


def _unbound(claims: Sequence[_Object]) -> str:
    """Return which claims have no volume, and which storage class has to make it."""
    return "; ".join(
        f"PersistentVolumeClaim {claim['metadata']['name']} is Pending, {_storage_class(claim)}"
        for claim in claims
        if (claim.get("status") or {}).get("phase") == "Pending"
    )


def _storage_class(claim: _Object) -> str:
    # A default class would have been filled in when the claim was created, or since.
    name = (claim.get("spec") or {}).get("storageClassName")
    return f"storage class {name}" if name else "without a storage class: there is no default one"


def _unseen(job: Job, raw: _Object, now: datetime) -> Why | None:
    if (other := job.spec.other_manager) is not None:
        field, manager = other
        text = f"{field} names {manager}, so the operator ignores it"
        if manager == keys.MULTIKUEUE:
            text += "; Kueue reads only spec.managedBy: create the job again with it"
        return Why(UNSEEN, text)
    if job.status.observed_generation is not None or job.status.conditions:
        return None
    created = raw["metadata"].get("creationTimestamp")
    if created is None or now - parse(created) < _UNOBSERVED:
        return Why(UNSEEN, "just created; no operator has seen it yet")
    return Why(
        UNSEEN,
        f"no operator has seen it for {age(created, now)}: check that one runs and serves namespace"
        f" {job.namespace} (tftj doctor)",
    )


def _of_seen(job: Job, pods: Sequence[_Object], events: Sequence[_Object], now: datetime) -> Why:
    status = job.status
    state, message = status.state or "Starting", status.message or ""
    ready = find(status.conditions, ConditionType.PODS_READY)
    undeletable = None
    if ready is not None and ready.reason == Reason.DELETION_REFUSED:
        undeletable = Why(ready.reason, ready.message)
    if (found := _ended(status)) is not None:
        return Why(found.state, f"{found.text}; {undeletable.text}") if undeletable else found
    found = _refused(status, message) or _stopped(job, message) or _elsewhere(job, state, message)
    if found is not None:
        return found
    if (restarting := find_true(status, ConditionType.RESTARTING)) is not None:
        problem = undeletable or _unreachable(status) or _problem(job, pods, events, now)
        text = _restart(job, restarting.message, now)
        return Why("Restarting", text + (f"; now {problem}" if problem else ""))
    if state == "Running" and ready is not None and ready.status == "True":
        return Why(state, rates(job) or message)
    if state == "Starting" or (ready is not None and ready.reason in _KUBELETS_WORD_IS_BETTER):
        problem = _problem(job, pods, events, now)
        return problem or Why(state, _waiting(job, message))
    return Why(state, message)


def _ended(status: Status) -> Why | None:
    if (failed := find_true(status, ConditionType.FAILED)) is not None:
        # The messages of other ends say which failure led to them.
        is_late = failed.reason == Reason.DEADLINE_EXCEEDED
        text = _with_failure(failed.message, status) if is_late else failed.message
        return Why(f"Failed ({failed.reason})", text)
    if (done := find_true(status, ConditionType.SUCCEEDED)) is not None:
        text = _evaluated(status) if done.reason == Reason.CHIEF_SUCCEEDED else done.message
        return Why("Succeeded", text or done.message)
    return None


def _refused(status: Status, message: str) -> Why | None:
    """Return why a job does not run that is rejected, or that the operator does not understand."""
    accepted = find(status.conditions, ConditionType.ACCEPTED)
    if accepted is None or is_true(status, ConditionType.RUNNING):
        return None
    if accepted.status == "True" and accepted.reason != Reason.UNSUPPORTED:
        return None
    return Why(status.state or accepted.reason, message)


def _elsewhere(job: Job, state: str, message: str) -> Why | None:
    queue = job.status.queue
    if not job.dispatched or queue is None or waits(queue):
        return None
    text = (
        f"{rates(job) or message}; its pods are in another cluster, which status.clusterName of"
        f" Workload {queue.workload} names"
    )
    return Why(state, text)


def _stopped(job: Job, message: str) -> Why | None:
    status = job.status
    if (suspended := find_true(status, ConditionType.SUSPENDED)) is not None:
        if suspended.reason == Reason.DELETION_REFUSED:
            return Why(suspended.reason, suspended.message)
        return Why("Suspended", f"{message}; tftj resume {job.name} continues it")
    if (stalled := find_true(status, ConditionType.STALLED)) is not None:
        return Why("Stalled", stalled.message)
    return None


def _unreachable(status: Status) -> Why | None:
    running = find(status.conditions, ConditionType.RUNNING)
    if running is None or running.reason != Reason.SERVERS_UNREACHABLE:
        return None
    return Why(running.reason, running.message)


def _with_failure(message: str, status: Status) -> str:
    """Return why a job was not finished in time, with its last failure, if there was one."""
    failure = status.last_failure
    line = telling_line(failure.message) if failure is not None else ""
    return f"{message}; {failure.pod}: {line}" if failure is not None and line else message


def _restart(job: Job, message: str, now: datetime) -> str:
    """Return the operator's message, with the time until which the next chief waits."""
    last = job.status.last_restart
    if last is None or last.not_before is None or (due := parse(last.not_before)) <= now:
        return message
    left = eta_text(int((due - now).total_seconds()) + 1)
    return f"{message}; waiting until {due:%H:%M:%S} UTC (in {left})"


def _evaluated(status: Status) -> str:
    steps = f"{status.progress.step} steps" if status.progress is not None else ""
    found = status.evaluation
    values = ", ".join(f"{m.name} {m.value}" for m in found.metrics) if found is not None else ""
    return "; ".join(part for part in (steps, f"evaluation: {values}" if values else "") if part)


def _waiting(job: Job, message: str) -> str:
    """Return what a starting job waits for; the chief may know more than its pods show."""
    running = find(job.status.conditions, ConditionType.RUNNING)
    if running is None or running.reason != Reason.CHIEF_NOT_READY or not running.message:
        return message
    return f"{message}; {running.message}" if message else running.message


def _problem(
    job: Job, pods: Sequence[_Object], events: Sequence[_Object], now: datetime
) -> Why | None:
    """Return what keeps pods from running as far as pods and events tell, None if nothing does."""
    uids = {pod["metadata"]["name"]: pod["metadata"].get("uid") for pod in pods}
    failures = _failures(events)
    for name, cause in pods_not_ready(job, observe(job, pods, (), now), Facts()):
        said = _said_of(name, uids.get(name), failures.get(name, ()))
        if said is not None and (cause is None or cause.reason in _KUBELETS_WORD_IS_BETTER):
            return said
        if cause is not None:
            return Why(cause.reason, f"{name}: {describe_cause(cause)}")
    return None


def _failures(events: Sequence[_Object]) -> dict[str, list[_Object]]:
    """Return what kubelet or scheduler said of pods that they could not start, newest first.

    By the pod's name: a job may have a thousand pods, and thousands of events.
    """
    found: dict[str, list[_Object]] = {}
    for event in reversed(events):
        reason = str(event.get("reason") or "")
        if event.get("type") == "Warning" and reason.startswith("Failed") and reason != "Failed":
            about = event.get("involvedObject") or {}
            found.setdefault(str(about.get("name")), []).append(event)
    return found


def _said_of(name: str, uid: str | None, failures: Sequence[_Object]) -> Why | None:
    """Return what was said last of a pod that could not be started, and not of one before it."""
    for event in failures:
        if not uid or event["involvedObject"].get("uid") in (None, uid):
            message = with_advice(str(event.get("message") or ""))
            return Why(str(event["reason"]), one_line(f"{name}: {message}", 600))
    return None
