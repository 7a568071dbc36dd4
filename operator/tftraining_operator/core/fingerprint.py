"""Tells pods that were made of another spec than the job has now.

What pods are made of changes only while a job is suspended. One that was suspended, corrected and
resumed before anybody looked has pods of before, and nothing else says so. core/desired.py writes
it on each pod, and core/policies/suspension.py asks. Pure.
"""

import hashlib
import json
from typing import Any

from tftraining_operator.api.types import Spec
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed

_MADE_OF: dict[str, Any] = {
    **dict.fromkeys(("strategy", "template", "chief", "ps", "evaluator"), True),
    **dict.fromkeys(("checkpoint", "scheduling"), True),
    "worker": {"template", "restart_policy"},
}
"""What changes only while a job is suspended, as in api/transitions.py."""
_LENGTH = 16
_MOST_DIGITS = 18


def fingerprint(job: Job) -> str:
    """Return what a pod that is made now carries: the job's generation, and a hash of its spec."""
    return f"{job.meta.generation}-{_hash(job)}"


def has_pods_of_before(job: Job, observed: Observed) -> bool:
    """Tell whether the job has pods that were made of another spec.

    Of a later generation, it is the job that was read before they were made. Those that an older
    operator made say nothing.
    """
    known = {pod.fingerprint for pod in observed.pods.values() if pod.fingerprint is not None}
    earlier = {text for text in known if _is_earlier(text, job.meta.generation)}
    return bool(earlier) and any(text.partition("-")[2] != _hash(job) for text in earlier)


def _is_earlier(text: str, generation: int) -> bool:
    number = text.partition("-")[0]
    return number.isdecimal() and len(number) <= _MOST_DIGITS and int(number) < generation


def _hash(job: Job) -> str:
    # Once for all pods of a job: it costs a fifth of what a pod does.
    if not job.hashes:
        job.hashes.append(_hash_of(job.spec))
    return job.hashes[0]


def _hash_of(spec: Spec) -> str:
    # Without defaults, which another version's CRD may have added to a stored job.
    found = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=_MADE_OF)
    text = json.dumps(found, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
