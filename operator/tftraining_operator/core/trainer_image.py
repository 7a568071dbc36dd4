"""Which trainer image a job uses: all its life the one that it started with.

The reconciler asks once in each pass; the status keeps the answer.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tftraining_operator.core import raw_pod
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import owned_by
from tftraining_operator.core.pod_state import task
from tftraining_operator.core.podtemplate import template

_Object = dict[str, Any]


def trainer_image(job: Job, pods: Callable[[], Iterable[_Object]], default: str) -> str:
    """Return the image of containers whose template names none; `default` if none has started.

    An operator that did not store it yet may have started the job: then one of `pods`, which are
    asked for only in that case, shows it.
    Raises InvalidTemplateError.
    """
    if job.status.trainer_image is not None:
        return job.status.trainer_image
    for raw in sorted(pods(), key=lambda raw: str(raw["metadata"].get("creationTimestamp"))):
        identity = task(job, raw) if owned_by(raw, job.uid) else None
        if identity is None or _image(template(job, identity[0])) is not None:
            continue
        if (image := _image(raw)) is not None:
            return image
    return default


def _image(pod: _Object) -> str | None:
    found: str | None = raw_pod.container_spec(pod).get("image")
    return found
