"""A job as it was seen at one moment: what the client returns, and commands and views show.

The views of it are imported by who wants to see it, because many commands do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.job import InvalidJobError, Job, parse_job

from tftraining.errors import InputError, TFTrainingError

if TYPE_CHECKING:
    from tftraining_operator.api.status import Status
    from tftraining_operator.api.types import Spec

    from tftraining.view.why import Why

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job and its pods at one moment. In a notebook it shows itself."""

    raw: _Object
    """The object as the API server returned it."""
    job: Job | None
    """None if the operator refuses what is stored."""
    pods: list[_Object] = field(default_factory=list)
    """Its pods as the API server returned them; [] in a list of jobs."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it was seen."""

    @property
    def name(self) -> str:
        """Name of the job."""
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Namespace of the job."""
        return str(self.raw["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """UID of the job: a job that was deleted and created again has another one."""
        return str(self.raw["metadata"]["uid"])

    @property
    def spec(self) -> Spec:
        """What is to be trained. Raises InputError if the operator refuses what is stored."""
        return self._parsed.spec

    @property
    def status(self) -> Status:
        """What the operator observed. Raises InputError if it refuses what is stored."""
        return self._parsed.status

    @property
    def why(self) -> Why:
        """The state in one word, and the reason for it: the first line of `tftj describe`."""
        from tftraining.view.why import why

        return why(self.raw, self.pods, (), self.now)

    @property
    def finished(self) -> bool:
        """Whether the job has ended."""
        return self.is_true(ConditionType.FINISHED)

    @property
    def succeeded(self) -> bool:
        """Whether the job has ended well."""
        return self.is_true(ConditionType.SUCCEEDED)

    @property
    def failed(self) -> bool:
        """Whether the job has failed."""
        return self.is_true(ConditionType.FAILED)

    def is_true(self, condition: ConditionType) -> bool:
        """Tell whether a condition of the status is true."""
        return self.job is not None and is_true(self.job.status, condition)

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"

    def __repr__(self) -> str:
        return f"<TrainingJob {self.namespace}/{self}>"

    def _repr_html_(self) -> str:
        from tftraining.view import html

        return html.job(self.raw, self.job, self.pods, self.now)

    @property
    def _parsed(self) -> Job:
        if self.job is None:
            raise InputError(f"job {self.name} is not valid: {self.why.text}")
        return self.job


def seen(raw: _Object, pods: list[_Object], now: datetime) -> TrainingJob:
    """Return an object of the API server as a job."""
    try:
        job = parse_job(raw, now)
    except InvalidJobError:
        job = None
    return TrainingJob(raw, job, pods, now)


class JobFailedError(TFTrainingError):
    """The job that was waited for has failed; the text says why, `job` is the job at its end."""

    def __init__(self, job: TrainingJob) -> None:
        """Keep the job as it was seen at its end."""
        super().__init__(str(job))
        self.job = job
