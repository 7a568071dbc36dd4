"""TF_CONFIG for each task, as tests/contract/tf_config holds it."""

import json
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Spec, Strategy
from tftraining_operator.core.naming import address

_IN_CLUSTER = (Role.CHIEF, Role.WORKER, Role.PS)


def tf_config(job: str, namespace: str, spec: Spec, role: Role, index: int) -> dict[str, Any]:
    """Return TF_CONFIG of one task.

    The evaluator is in nobody's cluster: a coordinator would wait for it for ever. A server of a
    ParameterServer job is told only itself, so that a resize never has to recreate it.
    """
    own = address(job, namespace, role, index)
    cluster: dict[str, Any]
    if role is Role.EVALUATOR:
        cluster = {role.value: [own]}
    elif role is not Role.CHIEF and spec.strategy is Strategy.PARAMETER_SERVER:
        cluster = {role.value: {str(index): own}}
    else:
        cluster = {
            member.value: [address(job, namespace, member, i) for i in range(count)]
            for member in _IN_CLUSTER
            if (count := spec.replicas(member))
        }
    return {"cluster": cluster, "task": {"type": role.value, "index": index}}


def tf_config_json(job: str, namespace: str, spec: Spec, role: Role, index: int) -> str:
    """Return TF_CONFIG as the text of the environment variable."""
    return json.dumps(tf_config(job, namespace, spec, role, index), separators=(",", ":"))
