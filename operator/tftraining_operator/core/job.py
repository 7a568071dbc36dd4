"""One job as the core sees it: identity, parsed spec, stored status."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tftraining_operator.api import keys, rules
from tftraining_operator.api.problems import Problem, from_error
from tftraining_operator.api.status import Status, parse_status
from tftraining_operator.api.types import ObjectMeta, Spec, parse_spec


class InvalidJobError(Exception):
    """The stored object is not a job that this operator understands; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Job:
    """A TFTrainingJob."""

    meta: ObjectMeta
    spec: Spec
    status: Status

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.meta.name

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.meta.namespace

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.meta.uid

    def desired(self, role: keys.Role) -> int:
        """Return how many pods of `role` the spec asks for."""
        return self.spec.replicas(role)

    def members(self, role: keys.Role) -> list[int]:
        """Return the indexes of a role's tasks that the present cluster has."""
        excluded = self.status.excluded_workers if role is keys.Role.WORKER else []
        return [index for index in range(self.desired(role)) if index not in excluded]

    @property
    def worker_set(self) -> str:
        """The workers of the present cluster as text: their number, or the indexes if some lack."""
        members = self.members(keys.Role.WORKER)
        whole = len(members) == self.desired(keys.Role.WORKER)
        return str(len(members)) if whole else ",".join(map(str, members))


def parse_job(raw: dict[str, Any]) -> Job:
    """Parse an object as the API server returned it. Raises InvalidJobError."""
    meta = ObjectMeta.model_validate(raw["metadata"])
    try:
        spec = parse_spec(raw.get("spec") or {})
    except ValidationError as error:
        raise InvalidJobError(_sentence(from_error(error))) from error
    # The CRD refuses these as well; a job stored under an older CRD may still break them.
    if found := rules.problems(meta.name, spec):
        raise InvalidJobError(_sentence(found))
    return Job(meta=meta, spec=spec, status=parse_status(raw.get("status")))


def _sentence(problems: list[Problem]) -> str:
    return "; ".join(str(problem) for problem in problems)
