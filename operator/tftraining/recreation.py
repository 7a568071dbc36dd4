"""Deletes a job, waits until it is gone, and creates it again, for `restart` and `submit`.

Both ask the API server first whether it would take the new job. Between deleting and creating,
`restart` keeps the manifest in a file: whatever ends it then, the job can be submitted again.

The ConfigMaps that `tftj submit` made belong to the job, so they would be deleted with it; they are
taken from it before, and given to its successor.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tftraining_operator.api import keys

from tftraining.cluster.cluster import Cluster
from tftraining.errors import (
    AlreadyExistsError,
    DeniedError,
    InputError,
    NotFoundError,
    TFTrainingError,
    TimedOutError,
    UnreachableError,
)

_Object = dict[str, Any]

_GONE_SECONDS = 180.0
_INTERVAL = 0.5
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_QUOTA = "exceeded quota: "
_QUOTA_SECONDS = 30.0
"""How long a quota may count a job that is gone."""


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
    kept |= {key: metadata[key] for key in ("labels", "ownerReferences") if metadata.get(key)}
    kept |= {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": kept,
        "spec": job["spec"],
    }


def check_replacement(cluster: Cluster, manifest: _Object) -> None:
    """Ask whether the API server would delete the job of that name, and take the new one then.

    Raises TFTrainingError with what it would refuse.
    """
    try:
        cluster.create_job(manifest, dry_run=True)
    except AlreadyExistsError:
        pass  # it looks for the name last, after validation and admission
    except TFTrainingError as error:
        # The last check of admission; a quota of jobs counts the one that is replaced too.
        if _QUOTA not in str(error):
            raise
    cluster.delete_job(manifest["metadata"]["name"], dry_run=True)


def create_replacement(
    cluster: Cluster, manifest: _Object, *, sleep: Callable[[float], None] = time.sleep
) -> _Object:
    """Create a job in place of one that is gone. Raises TFTrainingError."""
    end = time.monotonic() + _QUOTA_SECONDS
    while True:
        try:
            return cluster.create_job(manifest)
        except TFTrainingError as error:
            if _QUOTA not in str(error) or time.monotonic() > end:
                raise
        sleep(_INTERVAL)


def delete_and_wait(cluster: Cluster, job: _Object) -> None:
    """Delete a job and wait until it and its pods are gone. Raises TimedOutError."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    cluster.delete_job(name, foreground=True)
    _wait_until_gone(cluster, name, uid)


def _wait_until_gone(cluster: Cluster, name: str, uid: str) -> None:
    """Wait until a job with a uid is gone. Raises TimedOutError, UnreachableError."""
    end = time.monotonic() + _GONE_SECONDS
    while True:
        is_late = time.monotonic() > end
        if not _is_there(cluster, name, uid, is_late=is_late):
            return
        if is_late:
            raise TimedOutError(
                f"job {name} is still being deleted after {_GONE_SECONDS:.0f} s: tftj describe"
                f" {name} shows its pods"
            )
        time.sleep(_INTERVAL)


def _is_there(cluster: Cluster, name: str, uid: str, *, is_late: bool) -> bool:
    """Tell whether a job with a uid is there, which it is as long as nobody says otherwise.

    It is being deleted already: whoever gives up before it is late may leave no job at all.
    """
    try:
        found = cluster.find_job(name)
    except (DeniedError, UnreachableError):  # an API server that starts refuses everybody
        if is_late:
            raise
        return True
    return found is not None and bool(found["metadata"]["uid"] == uid)


def recreate(cluster: Cluster, job: _Object, *, say: Callable[[str], None]) -> _Object:
    """Replace a job by one like it and return that. Raises TFTrainingError.

    If it fails between deleting and creating, the error names the file that has the manifest; `say`
    is called with it before, for whoever ends the program in between.
    """
    manifest = successor(job)
    name = manifest["metadata"]["name"]
    check_replacement(cluster, manifest)
    code = cluster.config_maps(job["metadata"]["uid"])
    kept = _keep(manifest, job["metadata"]["namespace"])
    say(f"deleting the job {name}; its manifest is in {kept} until it is created again")
    try:
        for each in code:
            _release(cluster, each, job)
        delete_and_wait(cluster, job)
        made = create_replacement(cluster, manifest)
    except AlreadyExistsError as error:
        text = f"somebody else created {name} in the meantime; its manifest of before is in {kept}"
        raise NotFoundError(text) from error
    except TFTrainingError as error:
        text = f"{error}; {name} was not created again: tftj submit {kept} does it"
        raise type(error)(text) from error
    with contextlib.suppress(OSError):
        kept.unlink()
    adopt(cluster, [each["metadata"]["name"] for each in code], made, say)
    return made


def adopt(
    cluster: Cluster, config_maps: Sequence[str], job: _Object, say: Callable[[str], None]
) -> None:
    """Have ConfigMaps be deleted with a job; `say` is called with one that will not be."""
    for name in config_maps:
        try:
            cluster.set_owners(name, [owner(job)])
        except TFTrainingError as error:
            # Not that of the command: the job is there and trains, and is not to be created again.
            say(f"ConfigMap {name} will not be deleted with the job: {error}")


def _keep(manifest: _Object, namespace: str) -> Path:
    """Write a manifest to a file that only the user can read, as it may have secrets."""
    name = manifest["metadata"]["name"]
    whole = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"{name}-", suffix=".json", delete=False
        ) as file:
            json.dump(whole, file, indent=2)
    except OSError as error:
        raise InputError(f"cannot keep the manifest of {name}: {error.strerror}") from error
    return Path(file.name)


def _release(cluster: Cluster, config_map: _Object, job: _Object) -> None:
    owners = config_map["metadata"].get("ownerReferences") or []
    others = [each for each in owners if each.get("uid") != job["metadata"]["uid"]]
    cluster.set_owners(config_map["metadata"]["name"], others)
