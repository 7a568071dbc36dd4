"""The text of `tftj describe`: the first line says what is wrong, the rest what is known."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core.error_text import telling_line
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import InvalidJobError, Job, parse_job
from tftraining_operator.core.messages import pods_not_ready
from tftraining_operator.core.observed import Pod, observe
from tftraining_operator.core.text import one_line, printable

from tftraining.cluster.cluster import event_time
from tftraining.view.table import age, lines
from tftraining.view.training import describe_roles
from tftraining.view.why import why

_Object = dict[str, Any]

_EVENTS = 12
_LOG_LINES = 12
_INDENT = "  "


def describe(
    raw: _Object,
    pods: Sequence[_Object],
    events: Sequence[_Object],
    now: datetime,
    *,
    claims: Sequence[_Object] = (),
) -> list[str]:
    """Return all lines about a job; the first says why it does not run."""
    first = f"{raw['metadata']['name']}: {why(raw, pods, events, now, claims=claims)}"
    return [first, *_details(raw, pods, events, now)]


def _details(
    raw: _Object, pods: Sequence[_Object], events: Sequence[_Object], now: datetime
) -> Iterator[str]:
    try:
        job = parse_job(raw, now)
    except InvalidJobError:
        yield from _events(events, now)
        return
    yield ""
    yield from lines(list(_facts(job, raw, now)))
    yield from _pods(job, pods, now)
    yield from _failure(job)
    yield from _conditions(job, now)
    yield from _events(events, now)


def _facts(job: Job, raw: _Object, now: datetime) -> Iterator[tuple[str, str]]:
    status = job.status
    yield "Namespace", job.namespace
    yield "Created", f"{age(raw['metadata'].get('creationTimestamp'), now)} ago"
    yield "Cluster", f"{job.spec.strategy}: {describe_roles(job)}"
    if (progress := status.progress) is not None:
        total = "" if progress.total_steps is None else f" of {progress.total_steps}"
        percent = f" ({progress.percent_text})" if progress.percent_text else ""
        yield "Progress", f"step {progress.step}{total}{percent}"
        if progress.metrics:
            yield "Metrics", ", ".join(f"{m.name} {m.value}" for m in progress.metrics)
    if (found := status.evaluation) is not None:
        values = ", ".join(f"{m.name} {m.value}" for m in found.metrics)
        yield "Evaluation", f"{values} at step {found.step}"
    if (saved := status.last_checkpoint) is not None:
        yield "Checkpoint", f"step {saved.step}, {saved.path}"
    if status.last_restart is not None:
        last = status.last_restart
        limit = job.spec.run_policy.backoff_limit
        text = f"{status.restarts} counted of at most {limit}; the last {age(last.time, now)} ago"
        yield "Restarts", one_line(f"{text} ({last.reason}): {last.message}", 400)


def _pods(job: Job, raw_pods: Sequence[_Object], now: datetime) -> Iterator[str]:
    observed = observe(job, raw_pods, (), now)
    causes = dict(pods_not_ready(job, observed, Facts()))
    found = [pod for role in reversed(Role) for pod in observed.of(role)]
    if not found:
        return
    raws = {raw["metadata"]["name"]: raw for raw in raw_pods}
    rows = [["NAME", "STATUS", "RESTARTS", "NODE", "AGE", "CAUSE"]]
    for pod in found:
        cause = causes.get(pod.name) or pod.failure
        text = f"{cause.reason}: {telling_line(cause.message)}".rstrip(": ") if cause else ""
        restarts = str(_restarts(raws[pod.name]))
        created = age(pod.created_at, now)
        rows.append([pod.name, _phase(pod), restarts, pod.node or "", created, text])
    yield from ("", "Pods", *lines(rows, _INDENT))


def _phase(pod: Pod) -> str:
    if pod.deleting:
        return "Terminating"
    if pod.phase == "Running" and not pod.ready:
        return "NotReady"
    return pod.phase


def _restarts(raw: _Object) -> int:
    statuses = (raw.get("status") or {}).get("containerStatuses") or []
    return sum(each.get("restartCount", 0) for each in statuses)


def _failure(job: Job) -> Iterator[str]:
    failure = job.status.last_failure
    if failure is None:
        return
    text = [line for line in printable(failure.message).splitlines() if line.strip()]
    if len(text) > 1:
        code = f", exit code {failure.exit_code}" if failure.exit_code is not None else ""
        yield from ("", f"Last failure: {failure.pod} ({failure.reason}{code})")
        yield from (f"{_INDENT}{line}" for line in text[:_LOG_LINES])


def _conditions(job: Job, now: datetime) -> Iterator[str]:
    rows = [
        [each.type, each.status.value, each.reason, age(each.last_transition_time, now)]
        for each in job.status.conditions
    ]
    if rows:
        titles = ["TYPE", "STATUS", "REASON", "SINCE"]
        yield from ("", "Conditions", *lines([titles, *rows], _INDENT))


def _events(events: Sequence[_Object], now: datetime) -> Iterator[str]:
    newest = events[-_EVENTS:]
    if not newest:
        return
    rows = [["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"]]
    for event in newest:
        about = event.get("involvedObject") or {}
        message = printable(str(event.get("message") or "")).partition("\n")[0]
        rows.append(
            [
                age(event_time(event) or None, now),
                str(event.get("type") or ""),
                str(event.get("reason") or ""),
                str(about.get("name") or ""),
                one_line(message, 300),
            ]
        )
    yield from ("", "Events", *lines(rows, _INDENT))
