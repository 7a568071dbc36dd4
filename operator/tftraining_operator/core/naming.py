"""Names are computed, never generated: a crash between two calls is repaired by the same names."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tftraining_operator.api import keys

_SHOWN = 4
_LONGEST_PREFIX = 54
"""Of a job's name in those of its Workloads, which are used as labels by others."""
BUCKETS = 240
"""Jobs are divided by a hash into so many parts; it has many divisors, as numbers of shards are."""
_SERVERS = (keys.Role.PS.value, keys.Role.WORKER.value)


def pod_name(job: str, role: keys.Role, index: int) -> str:
    """Return the name of a pod, such as mnist-worker-0; it is its hostname as well."""
    return f"{job}-{role.value}-{index}"


def pod_of_task(job: str, task: str) -> str:
    """Return the name of the pod that a chief calls by its task, such as worker-0."""
    return f"{job}-{task}"


def address(job: str, namespace: str, role: keys.Role, index: int) -> str:
    """Return a task's address, resolved by the job's headless service, with TensorFlow's port."""
    return f"{pod_name(job, role, index)}.{job}.{namespace}.svc:{keys.CLUSTER_PORT}"


def lease_name(operator: str, shard: int) -> str:
    """Return the name of a shard's lease; the first one's is that of an unsharded operator."""
    return f"{operator}-{shard}" if shard else operator


def network_policy_name(job: str) -> str:
    """Return the name of a job's NetworkPolicy: a user may have one of the job's own name."""
    return f"{job}-isolation"


def disruption_budget_name(job: str) -> str:
    """Return the name of a job's PodDisruptionBudget."""
    return f"{job}-budget"


def workload_name(job: str, uid: str, extension: int = 0) -> str:
    """Return the name of a job's Workload, or of one that extends it."""
    if not extension:
        return f"{job[: _LONGEST_PREFIX + 3]}-{identity(uid)}"
    return f"{job[:_LONGEST_PREFIX]}-{identity(uid)}-{extension}"


def identity(uid: str) -> str:
    """Return what tells a job in a name: an object of an earlier one is not in the way then."""
    return hashlib.sha256(uid.encode()).hexdigest()[:5]


@lru_cache(maxsize=1024)
def bucket(namespace: str, job: str) -> int:
    """Return the number of the part to which a job belongs, less than BUCKETS.

    By its name and not by its uid: a job that is created again under its name has to wait for the
    pods of its predecessor, so that both belong together.
    """
    digest = hashlib.blake2b(f"{namespace}/{job}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS


def job_labels(namespace: str, job: str, uid: str) -> dict[str, str]:
    """Return the labels that every object of a job carries."""
    return {
        keys.LABEL_JOB: job,
        keys.LABEL_JOB_UID: uid,
        keys.LABEL_BUCKET: str(bucket(namespace, job)),
        keys.LABEL_MANAGED_BY: keys.LABEL_MANAGED_BY_VALUE,
    }


def pod_labels(
    namespace: str, job: str, uid: str, role: keys.Role, index: int, *, attempt: int
) -> dict[str, str]:
    """Return the labels of one pod."""
    return job_labels(namespace, job, uid) | {
        keys.LABEL_ROLE: role.value,
        keys.LABEL_INDEX: str(index),
        keys.LABEL_ATTEMPT: str(attempt),
    }


def worker_selector(job: str) -> str:
    """Return the selector of a job's workers, for the scale subresource."""
    return f"{keys.LABEL_JOB}={job},{keys.LABEL_ROLE}={keys.Role.WORKER.value}"


def servers_selector(job: str, uid: str) -> str:
    """Return the selector of the workers and parameter servers of one job, and no other's."""
    roles = ",".join(_SERVERS)
    return f"{keys.LABEL_JOB}={job},{keys.LABEL_JOB_UID}={uid},{keys.LABEL_ROLE} in ({roles})"


def is_server(labels: Mapping[str, str], job: str, uid: str) -> bool:
    """Tell whether `servers_selector` selects a pod with these labels."""
    names = (labels.get(keys.LABEL_JOB), labels.get(keys.LABEL_JOB_UID))
    return names == (job, uid) and labels.get(keys.LABEL_ROLE) in _SERVERS


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence, the first few of many."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
