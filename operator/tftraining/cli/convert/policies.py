"""restartPolicy of the replicas and runPolicy of a TFJob, for a TFTrainingJob.

schedulingPolicy, which is a part of it there, is in scheduling.py.
"""

from collections.abc import Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.keys import MULTIKUEUE, Role
from tftraining_operator.api.types import CleanPodPolicy, RestartPolicy, RunPolicy

from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.replicas import Replica
from tftraining.cli.convert.tfjob_api import MANAGED_BY, PERMANENT

_Map = Mapping[str, Any]

_MAX_BACKOFF = 1000
_DEFAULT_BACKOFF = RunPolicy.model_fields["backoff_limit"].default
_TIMES = ("ttlSecondsAfterFinished", "activeDeadlineSeconds")
FIELDS = ("cleanPodPolicy", *_TIMES, "backoffLimit")
"""Fields of runPolicy that the first builds of v1 had in spec itself."""
_KNOWN = frozenset({*FIELDS, "suspend", "managedBy", "schedulingPolicy"})


def restart_policy(replica: Replica, role: Role, findings: list[Finding]) -> RestartPolicy:
    """Return the restartPolicy of a role that a replica is made into. Raises RefusedError."""
    given = replica.raw.get("restartPolicy") or RestartPolicy.NEVER.value
    path = f"{replica.path}.restartPolicy"
    # A chief and workers that are made of the same replica say it once.
    own = role is replica.role or replica.count == 1
    if given == RestartPolicy.NEVER:
        if own and role in (Role.WORKER, Role.PS):
            text = "a failed pod fails the job, as before; with ExitCode it is replaced"
            findings.append(Finding(Level.NOTE, path, text))
        return RestartPolicy.NEVER
    if given == "Always":
        if own:
            text = "OnFailure: a chief that exits with 0 has succeeded, and is not run again"
            findings.append(Finding(Level.DIFFERS, path, text))
        return RestartPolicy.ON_FAILURE
    if given == RestartPolicy.EXIT_CODE:
        if own:
            text = (
                f"only {PERMANENT} are permanent here, and every other code is retried up to"
                " backoffLimit; there, 1 to 127 were permanent and 128 to 255 retried. For an error"
                " that no restart can repair, let the script exit with 64"
            )
            findings.append(Finding(Level.DIFFERS, path, text))
        return RestartPolicy.EXIT_CODE
    if given == RestartPolicy.ON_FAILURE:
        return RestartPolicy.ON_FAILURE
    raise RefusedError(path, f"unknown value {given}; use Never, OnFailure, Always or ExitCode")


def run_policy(
    spec: _Map, replicas: list[Replica], findings: list[Finding], *, queued: bool
) -> CommentedMap:
    """Return the runPolicy; `queued` for a job in a queue of Kueue. Raises RefusedError."""
    given = {key: spec[key] for key in FIELDS if key in spec} | dict(spec.get("runPolicy") or {})
    policy = CommentedMap()
    if isinstance(source := spec.get("runPolicy"), CommentedMap):
        policy.ca.comment = source.ca.comment
        for key in (*FIELDS, "suspend"):
            if key in source.ca.items:
                policy.ca.items[key] = source.ca.items[key]
    findings += [
        Finding(Level.LOST, f"spec.runPolicy.{key}", "unknown field; left out")
        for key in sorted(set(given) - _KNOWN)
    ]
    for key in _TIMES:
        if given.get(key) is not None:
            policy[key] = given[key]
    if given.get("suspend") and queued:
        text = (
            "left out: there, Kueue suspends the job until it admits it; here, a job in a queue has"
            " no pods until then, and Kueue does not resume one that is suspended"
        )
        findings.append(Finding(Level.DIFFERS, "spec.runPolicy.suspend", text))
    elif given.get("suspend"):
        policy["suspend"] = given["suspend"]
    _backoff(given, replicas, policy, findings)
    _clean(given, policy, findings)
    for key in given:  # in their order, as a comment belongs to the key before it
        if key in policy:
            policy.move_to_end(key)
    return policy


def _backoff(
    given: _Map, replicas: list[Replica], policy: CommentedMap, findings: list[Finding]
) -> None:
    path = "spec.runPolicy.backoffLimit"
    limit = given.get("backoffLimit")
    never = RestartPolicy.NEVER.value
    restarts = any((each.raw.get("restartPolicy") or never) != never for each in replicas)
    if limit is not None:
        policy["backoffLimit"] = min(limit, _MAX_BACKOFF) if isinstance(limit, int) else limit
        text = "it counts restarts of the chief; there, those of all pods"
        if isinstance(limit, int) and limit > _MAX_BACKOFF:
            text += f"; the maximum here is {_MAX_BACKOFF}"
        findings.append(Finding(Level.DIFFERS, path, text))
    elif restarts:
        text = f"unset meant no limit; here it means {_DEFAULT_BACKOFF} restarts of the chief"
        findings.append(Finding(Level.DIFFERS, path, text))


def _clean(given: _Map, policy: CommentedMap, findings: list[Finding]) -> None:
    path = "spec.runPolicy.cleanPodPolicy"
    value = given.get("cleanPodPolicy") or ""
    if value in list(CleanPodPolicy):
        policy["cleanPodPolicy"] = value
        if value == CleanPodPolicy.NONE:
            text = "workers and parameter servers keep running, and keep their resources"
            findings.append(Finding(Level.NOTE, path, text))
    elif value in ("", "Undefined"):
        text = (
            "unset kept all pods; here it is Running: pods that still run are deleted at the end,"
            " those that have ended are kept with their logs"
        )
        findings.append(Finding(Level.DIFFERS, path, text))
    else:
        raise RefusedError(path, f"unknown value {value}; use Running, All or None")


def managed_by(spec: _Map, findings: list[Finding]) -> str | None:
    """Return spec.managedBy, None if this operator is to run the job."""
    manager = (spec.get("runPolicy") or {}).get("managedBy")
    if manager == MULTIKUEUE:
        return MULTIKUEUE
    if manager and manager != MANAGED_BY:
        text = f"left out: {manager} manages TFJobs and not TFTrainingJobs, so nothing would run it"
        findings.append(Finding(Level.LOST, "spec.runPolicy.managedBy", text))
    return None
