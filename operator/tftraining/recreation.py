"""Deletes a job, waits until it is gone, and creates it again, for `restart` and `submit`.

The ConfigMaps that `tftj submit` made belong to the job, so they would be deleted with it; they are
taken from it before, and given to its successor.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tftraining_operator.api import keys

from tftraining.cluster.cluster import Cluster
from tftraining.errors import AlreadyExistsError, NotFoundError, TimedOutError

_Object = dict[str, Any]

_GONE_SECONDS = 180.0
_INTERVAL = 0.5
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


def owner(job: _Object) -> _Object:
    """Return the reference by which an object belongs to a job."""
    metadata = job["metadata"]
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def successor(job: _Object) -> _Object:
    """Return the manifest of a job like this one, that has never run."""
    metadata = job["metadata"]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != _LAST_APPLIED
    }
    kept: _Object = {"name": metadata["name"]}
    kept |= {"labels": metadata["labels"]} if metadata.get("labels") else {}
    kept |= {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": kept,
        "spec": job["spec"],
    }


def delete_and_wait(
    cluster: Cluster, job: _Object, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Delete a job and wait until it and its pods are gone. Raises TimedOutError."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    cluster.delete_job(name, foreground=True)
    wait_until_gone(cluster, name, uid, sleep=sleep)


def wait_until_gone(
    cluster: Cluster, name: str, uid: str, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until a job with a uid is gone. Raises TimedOutError."""
    end = time.monotonic() + _GONE_SECONDS
    while (found := cluster.find_job(name)) is not None and found["metadata"]["uid"] == uid:
        if time.monotonic() > end:
            raise TimedOutError(
                f"job {name} is still being deleted after {_GONE_SECONDS:.0f} s: tftj describe"
                f" {name} shows its pods"
            )
        sleep(_INTERVAL)


def recreate(
    cluster: Cluster, job: _Object, *, sleep: Callable[[float], None] = time.sleep
) -> _Object:
    """Replace a job by one like it and return that. Raises TFTrainingError."""
    code = cluster.config_maps(job["metadata"]["uid"])
    for each in code:
        _release(cluster, each, job)
    delete_and_wait(cluster, job, sleep=sleep)
    try:
        made = cluster.create_job(successor(job))
    except AlreadyExistsError as error:
        raise NotFoundError(f"somebody else created it in the meantime: {error}") from error
    for each in code:
        cluster.set_owners(each["metadata"]["name"], [owner(made)])
    return made


def _release(cluster: Cluster, config_map: _Object, job: _Object) -> None:
    owners = config_map["metadata"].get("ownerReferences") or []
    others = [each for each in owners if each.get("uid") != job["metadata"]["uid"]]
    cluster.set_owners(config_map["metadata"]["name"], others)
