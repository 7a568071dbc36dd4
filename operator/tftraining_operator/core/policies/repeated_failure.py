"""The same exception three times in a row at the same step: a further attempt cannot help."""

import re

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import find
from tftraining_operator.core.error_text import telling_line
from tftraining_operator.core.exit_codes import ExitCode
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Pod
from tftraining_operator.core.text import one_line
from tftraining_operator.core.times import parse

LIMIT = 3
_POLL_SECONDS = 10.0
"""How far the newest known step may be behind the real one."""
_TEXT_LIMIT = 256
# Of one error of the data TensorFlow sends file and line in some attempts, and in others not: it
# depends on whether the worker or the parameter server that waits for it is heard first.
_PLACE = re.compile(r" \([^()]*, line \d+\)$")


def verdict(job: Job, culprit: Pod) -> str:
    """Return why no further attempt is made, "" if there is no such reason."""
    if job.spec.run_policy.stop_on_repeated_failure is False:
        return ""
    if repeats(job, culprit) < LIMIT:
        return ""
    return (
        f"the same failure occurred {LIMIT} times in a row at the same step; to retry up to"
        " backoffLimit, set spec.runPolicy.stopOnRepeatedFailure to false"
    )


def repeats(job: Job, culprit: Pod | None) -> int:
    """Return how often in a row this very failure occurred, this time included."""
    last = job.status.last_restart
    text = first_line(culprit)
    if last is None or text is None or last.failure_text != text or not last.counted:
        return 1
    saved = job.status.last_checkpoint.step if job.status.last_checkpoint else None
    if last.checkpoint_step != saved or not _same_step(job, last.step):
        return 1
    if last.step is None and _ran_since(job, last.time):
        # How far it came, nobody knows.
        return 1
    return last.repeats + 1


def first_line(culprit: Pod | None) -> str | None:
    """Return the exception of a failure of the user's code, None for any other failure.

    It is the same text for the same failure in every attempt: file and line are not in it.
    """
    failure = culprit.failure if culprit is not None else None
    if failure is None or failure.exit_code != ExitCode.FAILED or not failure.message.strip():
        return None
    return one_line(_PLACE.sub("", telling_line(failure.message)), _TEXT_LIMIT)


def _same_step(job: Job, before: int | None) -> bool:
    progress = job.status.progress
    now = progress.step if progress is not None else None
    if before is None or now is None or progress is None:
        return before == now
    rate = float(progress.steps_per_second or 0.0)
    return abs(now - before) <= rate * _POLL_SECONDS + 1


def _ran_since(job: Job, restart: str) -> bool:
    """Tell whether the job was Running after a restart, which itself had ended that."""
    running = find(job.status.conditions, ConditionType.RUNNING)
    return running is not None and parse(running.last_transition_time) > parse(restart)
