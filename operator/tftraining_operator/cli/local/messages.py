"""A run in words: what is shown beside the bar, and the sentence at the end. Pure."""

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Metric, Progress, Status
from tftraining_operator.core.conditions import find, find_true, is_true
from tftraining_operator.core.events import Event
from tftraining_operator.core.job import Job
from tftraining_operator.core.times import parse

_SHOWN_METRICS = 4
_SHOWN_LINES = 12
_THOUSAND = 1000


def describe_roles(job: Job) -> str:
    """Say who takes part, such as `chief, 2 workers, ps, evaluator`."""
    said = []
    for role in (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR):
        count = job.desired(role)
        plural = "" if role is Role.PS or count == 1 else "s"
        if count:
            said.append(f"{count} {role}{plural}" if count > 1 else str(role))
    return ", ".join(said)


def without_repetition(events: list[Event]) -> list[Event]:
    """Leave out what a restart in the same breath, or the run's result, tells again."""
    restarts = [event.note for event in events if event.action == "Restart"]
    return [
        event
        for event in events
        if event.action != "Finish"
        and (event.action == "Restart" or not _begins_alike(event.note, restarts))
    ]


def note(event: Event) -> str:
    """Say an event in one line: of a log's end, its last line."""
    if "\n" not in event.note.strip():
        return event.note
    head, last = event.note.splitlines()[0], event.note.strip().splitlines()[-1]
    return f"{': '.join(head.split(': ')[:2])}: {last}"


def rates(progress: Progress, examples_per_second: float | None) -> str:
    """Say how fast the training is and what it has reached."""
    said = []
    if progress.steps_per_second is not None:
        said.append(f"{progress.steps_per_second} steps/s")
    if examples_per_second is not None:
        said.append(f"{short(examples_per_second)} examples/s")
    if progress.loss is not None:
        said.append(f"loss {progress.loss}")
    if progress.eta_text is not None and progress.step < (progress.total_steps or 0):
        said.append(f"{progress.eta_text} left")
    return ", ".join(said)


def line(progress: Progress, examples_per_second: float | None) -> str:
    """Say how far the training is in one line, where there is no bar."""
    of = "" if progress.total_steps is None else f"/{progress.total_steps}"
    percent = "" if progress.percent_text is None else f" ({progress.percent_text})"
    said = [f"step {progress.step}{of}{percent}", rates(progress, examples_per_second)]
    return ", ".join(part for part in said if part)


def is_waiting(status: Status) -> bool:
    """Tell whether the training does not go on at the moment."""
    return is_true(status, ConditionType.RESTARTING) or is_true(status, ConditionType.STALLED)


def waiting(status: Status) -> str:
    """Say why there is no progress yet or any more."""
    if is_true(status, ConditionType.STALLED):
        return _message(status, ConditionType.STALLED)
    if is_true(status, ConditionType.RESTARTING):
        return _message(status, ConditionType.RESTARTING)
    running = find(status.conditions, ConditionType.RUNNING)
    if running is not None and running.status == "True":
        return "the first step"
    ready = find(status.conditions, ConditionType.PODS_READY)
    if ready is not None and ready.status == "False" and ready.message:
        return ready.message
    return running.message if running is not None else ""


def evaluation(status: Status) -> str:
    """Say what the evaluator has measured, nothing before it has."""
    found = status.evaluation
    return f"{metrics(found.metrics)} at step {found.step}" if found is not None else ""


def metrics(found: list[Metric]) -> str:
    """Say some metrics, the loss last."""
    ordered = sorted(found, key=lambda metric: (metric.name == "loss", metric.name))
    return ", ".join(f"{metric.name} {metric.value}" for metric in ordered[:_SHOWN_METRICS])


def short(number: float) -> str:
    """Round a rate for people: 41.5, 970, 25.1k."""
    if number >= 10 * _THOUSAND:
        return f"{number / _THOUSAND:.1f}k"
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"  # noqa: PLR2004 - three digits


def result(status: Status) -> str:
    """Say in one line how a finished job ended and what it has reached."""
    succeeded = find_true(status, ConditionType.SUCCEEDED)
    if succeeded is None:
        failed = find(status.conditions, ConditionType.FAILED)
        return f"Failed ({failed.reason}): {failed.message}" if failed else "Failed"
    seconds = ""
    if status.start_time is not None and status.completion_time is not None:
        took = parse(status.completion_time) - parse(status.start_time)
        seconds = f" after {took.total_seconds():.0f} s"
    reached = [f"Succeeded{seconds}"]
    if status.evaluation is not None:
        reached.append(f"evaluation: {evaluation(status)}")
    elif status.progress is not None and status.progress.metrics:
        reached.append(f"{metrics(status.progress.metrics)} in training")
    if succeeded.reason != "ChiefSucceeded":
        reached.append(succeeded.message)
    return "; ".join(reached)


def describe_failure(status: Status, log: str) -> list[str]:
    """Tell of the failure that ended a job: who, its last lines, and where the rest is."""
    failure = status.last_failure
    if failure is None:
        return []
    said = [text for text in failure.message.splitlines() if text.strip()]
    return [*said[-_SHOWN_LINES:], f"the whole log of {failure.pod}: {log}"]


def _begins_alike(note: str, others: list[str]) -> bool:
    pod = note.partition(":")[0]
    return any(other.startswith(f"{pod} ") for other in others)


def _message(status: Status, kind: ConditionType) -> str:
    found = find(status.conditions, kind)
    return found.message if found is not None else ""
