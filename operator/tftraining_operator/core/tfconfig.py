"""TF_CONFIG for each task, as tests/contract/tf_config holds it."""

import json
from collections.abc import Sequence
from functools import lru_cache

from tftraining_operator.api.keys import Role
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import address
from tftraining_operator.core.roles import traits

NAME = "TF_CONFIG"
LIMIT = 131_072
"""Bytes that Linux allows for one environment variable: NAME=value and the byte that ends it."""

_ORDER = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)
_Members = tuple[tuple[Role, Sequence[int]], ...]


class TfConfigTooLargeError(Exception):
    """No process could be started with this TF_CONFIG; the text names the limit and the fix."""


def tf_config_json(job: Job, role: Role, index: int) -> str:
    """Return TF_CONFIG of one task as the text of the variable. Raises TfConfigTooLargeError.

    The evaluator is in nobody's cluster, as a coordinator would wait for it for ever, and has a
    cluster of its own.

    A server (a worker or ps that the chief connects to) does not need to know the others, but
    scripts of other images ask their TF_CONFIG for them. So it gets every task that the spec asks
    for, without regard to excluded workers: it must find itself at its own index, and is not
    restarted when a worker is excluded, returns, or when the job is resized. Only if that is more
    than Linux allows does it get itself alone, unless it is to join a cluster later that no chief
    could be told of. The chief's list closes up instead where a worker is excluded: the coordinator
    numbers workers from 0 without gaps, and a server accepts any number.
    """
    own = f'"task":{{"type":"{role.value}","index":{index}}}'
    found = traits(job.spec.strategy, role)
    if not found.in_cluster:
        return f"{{{_cluster(job.name, job.namespace, ((role, (index,)),))},{own}}}"
    joins = _is_to_join(job, role, index)
    members = tuple(
        # Of a range or a tuple, which the cache of texts tells from another by its hash.
        (member, range(job.desired(member)) if found.serves or joins else job.members(member))
        for member in _ORDER
        if traits(job.spec.strategy, member).in_cluster and job.desired(member)
    )
    text = f"{{{_cluster(job.name, job.namespace, members)},{own}}}"
    # One rule for all tasks of a job: as if each had the longest role and index.
    longest = len(text) - len(own) + len('"task":{"type":"worker","index":999}')
    size = len(f"{NAME}=") + longest + 1
    if size <= LIMIT:
        return text
    if found.serves and not joins:
        itself = {role.value: {str(index): address(job.name, job.namespace, role, index)}}
        return f'{{"cluster":{json.dumps(itself, separators=(",", ":"))},{own}}}'
    raise TfConfigTooLargeError(
        f"TF_CONFIG would have {size:,} bytes, and Linux allows {LIMIT:,} for one environment "
        f"variable: use fewer workers than {job.desired(Role.WORKER):,}, or shorten the job's name "
        "or namespace, which each address holds"
    )


def cluster_workers(job: Job, role: Role, index: int) -> str:
    """Return the workers of the cluster that a pod is made for, in the form of Job.worker_set."""
    return str(job.desired(Role.WORKER)) if _is_to_join(job, role, index) else job.worker_set


def _is_to_join(job: Job, role: Role, index: int) -> bool:
    """Tell whether a task has a place in the next cluster only, that with all new workers."""
    return index >= job.cluster_size(role)


# One text for all pods of a job: with 1,000 workers it is large, and each of them has it.
@lru_cache(maxsize=64)
def _cluster(job: str, namespace: str, members: _Members) -> str:
    found = {
        role.value: [address(job, namespace, role, index) for index in indexes]
        for role, indexes in members
        if indexes
    }
    return f'"cluster":{json.dumps(found, separators=(",", ":"))}'
