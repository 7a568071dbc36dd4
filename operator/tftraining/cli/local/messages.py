"""Texts of a local run: event lines, the status beside the bar, the result. Pure."""

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Metric, Progress, Status
from tftraining_operator.core.conditions import find, find_true, is_true
from tftraining_operator.core.events import Action, Event
from tftraining_operator.core.text import one_line, printable
from tftraining_operator.core.times import parse

_MAX_METRICS = 4
_MAX_LOG_LINES = 12
_THOUSAND = 1000


def without_repetition(events: list[Event]) -> list[Event]:
    """Drop a failure whose restart is reported in the same pass, and the end of the job.

    The result of the run reports the end.
    """
    restarted = {event.pod for event in events if event.action is Action.RESTART and event.pod}
    return [
        event
        for event in events
        if event.action is not Action.FINISH
        and (event.action is Action.RESTART or event.pod not in restarted)
    ]


def rates(progress: Progress, examples_per_second: float | None) -> str:
    """Return the speed of the training, its loss and the time left."""
    parts = []
    if progress.steps_per_second is not None:
        parts.append(f"{progress.steps_per_second} steps/s")
    if examples_per_second is not None:
        parts.append(f"{round_rate(examples_per_second)} examples/s")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss}")
    if progress.eta_text is not None and progress.step < (progress.total_steps or 0):
        parts.append(f"{progress.eta_text} left")
    return ", ".join(parts)


def progress_line(progress: Progress, examples_per_second: float | None) -> str:
    """Return the whole progress in one line, for a console without a bar."""
    total = "" if progress.total_steps is None else f"/{progress.total_steps}"
    percent = "" if progress.percent_text is None else f" ({progress.percent_text})"
    parts = [f"step {progress.step}{total}{percent}", rates(progress, examples_per_second)]
    return ", ".join(part for part in parts if part)


def is_waiting(status: Status) -> bool:
    """Return whether the training is interrupted at the moment."""
    return is_true(status, ConditionType.RESTARTING) or is_true(status, ConditionType.STALLED)


def waiting_reason(status: Status) -> str:
    """Return what the training waits for: to begin, or to continue."""
    for interruption in (ConditionType.STALLED, ConditionType.RESTARTING):
        if (found := find_true(status, interruption)) is not None:
            return found.message
    running = find(status.conditions, ConditionType.RUNNING)
    if running is not None and running.status == "True":
        return "the first step"
    ready = find(status.conditions, ConditionType.PODS_READY)
    if ready is not None and ready.status == "False" and ready.message:
        return ready.message
    return running.message if running is not None else ""


def evaluation(status: Status) -> str:
    """Return the evaluator's newest metrics, nothing before there are any."""
    found = status.evaluation
    return f"{metrics(found.metrics)} at step {found.step}" if found is not None else ""


def metrics(found: list[Metric]) -> str:
    """Return some metrics, the loss last."""
    ordered = sorted(found, key=lambda metric: (metric.name == "loss", metric.name))
    return ", ".join(f"{metric.name} {metric.value}" for metric in ordered[:_MAX_METRICS])


def round_rate(rate: float) -> str:
    """Round a rate for display: 41.5, 970, 25.1k."""
    if rate >= 10 * _THOUSAND:
        return f"{rate / _THOUSAND:.1f}k"
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 - three digits


def result(status: Status) -> str:
    """Return in one line how a finished job ended, with its metrics."""
    succeeded = find_true(status, ConditionType.SUCCEEDED)
    if succeeded is None:
        failed = find(status.conditions, ConditionType.FAILED)
        return one_line(f"Failed ({failed.reason}): {failed.message}", 1000) if failed else "Failed"
    seconds = ""
    if status.start_time is not None and status.completion_time is not None:
        took = parse(status.completion_time) - parse(status.start_time)
        seconds = f" after {took.total_seconds():.0f} s"
    parts = [f"Succeeded{seconds}"]
    if status.evaluation is not None:
        parts.append(f"evaluation: {evaluation(status)}")
    elif status.progress is not None and status.progress.metrics:
        parts.append(f"{metrics(status.progress.metrics)} in training")
    if succeeded.reason != Reason.CHIEF_SUCCEEDED:
        parts.append(succeeded.message)
    return "; ".join(parts)


def failure_details(status: Status, log: str) -> list[str]:
    """Return the last lines of the failure that ended a job, and where the whole log is.

    One line that stands in the result is not repeated.
    """
    failure = status.last_failure
    if failure is None:
        return []
    lines = [line for line in printable(failure.message).splitlines() if line.strip()]
    if len(lines) == 1 and one_line(lines[0], 1000).rstrip(".") in result(status):
        lines = []
    return [*lines[-_MAX_LOG_LINES:], f"full log of {failure.pod}: {log}"]
