"""The text of `tftj describe`: the first line says what is wrong, the rest what is known.

What it is made of, facts and rows of tables, is shown by the web page too (web/job_page.py).
"""

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

POD_TITLES = ("NAME", "STATUS", "RESTARTS", "NODE", "AGE", "CAUSE")
CONDITION_TITLES = ("TYPE", "STATUS", "REASON", "SINCE")
EVENT_TITLES = ("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE")

Rows = list[list[str]]


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


def facts(job: Job, raw: _Object, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield what is known of a job, by name."""
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


def pod_rows(job: Job, raw_pods: Sequence[_Object], now: datetime) -> Rows:
    """Return a row for each pod, with the columns of POD_TITLES."""
    observed = observe(job, raw_pods, (), now)
    causes = dict(pods_not_ready(job, observed, Facts()))
    raws = {raw["metadata"]["name"]: raw for raw in raw_pods}
    rows = []
    for pod in (pod for role in reversed(Role) for pod in observed.of(role)):
        cause = causes.get(pod.name) or pod.failure
        text = f"{cause.reason}: {telling_line(cause.message)}".rstrip(": ") if cause else ""
        restarts = str(_restarts(raws[pod.name]))
        created = age(pod.created_at, now)
        rows.append([pod.name, _phase(pod), restarts, pod.node or "", created, text])
    return rows


def failure(job: Job) -> tuple[str, list[str]] | None:
    """Return which pod failed last and how, and the end of its log; None without a failure."""
    found = job.status.last_failure
    if found is None:
        return None
    text = [line for line in printable(found.message).splitlines() if line.strip()]
    code = f", exit code {found.exit_code}" if found.exit_code is not None else ""
    return f"{found.pod} ({found.reason}{code})", text[:_LOG_LINES]


def condition_rows(job: Job, now: datetime) -> Rows:
    """Return a row for each condition, with the columns of CONDITION_TITLES."""
    return [
        [each.type, each.status.value, each.reason, age(each.last_transition_time, now)]
        for each in job.status.conditions
    ]


def event_rows(events: Sequence[_Object], now: datetime) -> Rows:
    """Return a row for each of the newest events, with the columns of EVENT_TITLES."""
    rows = []
    for event in events[-_EVENTS:]:
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
    return rows


def _details(
    raw: _Object, pods: Sequence[_Object], events: Sequence[_Object], now: datetime
) -> Iterator[str]:
    events_table = _table("Events", EVENT_TITLES, event_rows(events, now))
    try:
        job = parse_job(raw, now)
    except InvalidJobError:
        yield from events_table
        return
    yield ""
    yield from lines(list(facts(job, raw, now)))
    yield from _table("Pods", POD_TITLES, pod_rows(job, pods, now))
    yield from _failure(job)
    yield from _table("Conditions", CONDITION_TITLES, condition_rows(job, now))
    yield from events_table


def _table(heading: str, titles: Sequence[str], rows: Rows) -> list[str]:
    """Return the lines of a table, without a last column in which nothing stands."""
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    return ["", heading, *lines([titles, *rows], _INDENT)] if rows else []


def _failure(job: Job) -> Iterator[str]:
    found = failure(job)
    if found is not None and len(found[1]) > 1:  # one line stands in the first one
        yield from ("", f"Last failure: {found[0]}")
        yield from (f"{_INDENT}{line}" for line in found[1])


def _phase(pod: Pod) -> str:
    if pod.deleting:
        return "Terminating"
    if pod.phase == "Running" and not pod.ready:
        return "NotReady"
    return pod.phase


def _restarts(raw: _Object) -> int:
    statuses = (raw.get("status") or {}).get("containerStatuses") or []
    return sum(each.get("restartCount", 0) for each in statuses)
