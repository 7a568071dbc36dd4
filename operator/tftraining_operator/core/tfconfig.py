"""TF_CONFIG for each task, as tests/contract/tf_config holds it."""

import json
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import address
from tftraining_operator.core.roles import traits

_ORDER = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)


def tf_config(job: Job, role: Role, index: int) -> dict[str, Any]:
    """Return TF_CONFIG of one task.

    The evaluator is in nobody's cluster: a coordinator would wait for it for ever. A server of a
    ParameterServer job is told only itself, so that a resize never has to recreate it. Where a
    worker is left out, the chief's list closes up: the coordinator numbers workers from 0 without
    gaps, and a server takes whatever number it is called by.
    """
    cluster: dict[str, Any]
    found = traits(job.spec.strategy, role)
    if not found.in_cluster:
        cluster = {role.value: [_address(job, role, index)]}
    elif found.serves:
        cluster = {role.value: {str(index): _address(job, role, index)}}
    else:
        cluster = {
            member.value: [_address(job, member, i) for i in indexes]
            for member in _ORDER
            if traits(job.spec.strategy, member).in_cluster and (indexes := job.members(member))
        }
    return {"cluster": cluster, "task": {"type": role.value, "index": index}}


def tf_config_json(job: Job, role: Role, index: int) -> str:
    """Return TF_CONFIG as the text of the environment variable."""
    return json.dumps(tf_config(job, role, index), separators=(",", ":"))


def _address(job: Job, role: Role, index: int) -> str:
    return address(job.name, job.namespace, role, index)
