"""The names in TFJob's API, and what they are called here; used in both directions."""

from collections.abc import Mapping

from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers import SCHEDULERS

VERSION = "kubeflow.org/v1"
KIND = "TFJob"
PLURAL = "tfjobs"
MANAGED_BY = "kubeflow.org/training-operator"
"""spec.runPolicy.managedBy of the jobs that the training operator takes care of."""

REPLICA_TYPES: Mapping[Role, str] = {
    Role.CHIEF: "Chief",
    Role.WORKER: "Worker",
    Role.PS: "PS",
    Role.EVALUATOR: "Evaluator",
}
"""Keys of spec.tfReplicaSpecs, in the order in which roles are written."""

MASTER = "master"
"""Older name of the chief, which TF_CONFIG has there as well."""

ROLES: Mapping[str, Role] = {
    **{name.lower(): role for role, name in REPLICA_TYPES.items()},
    MASTER: Role.CHIEF,
    "eval": Role.EVALUATOR,
}
"""The roles of replica types, which TFJob takes in any case."""

PORT = "tfjob-port"
"""Port of the container that TF_CONFIG names; TFJob adds it, as 2222, if it is absent."""

PERMANENT = "64, 77, 126 and 127"
"""Exit codes that are permanent here under restartPolicy ExitCode; there, 1 to 127 are."""

LABEL_JOB = "training.kubeflow.org/job-name"
"""Label of a TFJob's pods."""

GANG_SCHEDULERS: Mapping[Gang, str | None] = {
    gang: SCHEDULERS[gang].single(None).scheduler_name for gang in (Gang.VOLCANO, Gang.POD_GROUP)
}
"""The schedulers by which the training operator forms gangs, as templates name them."""


def gang_scheduler(gang: Gang | None) -> str | None:
    """Return the scheduler that forms a gang for TFJobs, None for a gang that none forms."""
    return GANG_SCHEDULERS.get(gang) if gang is not None else None
