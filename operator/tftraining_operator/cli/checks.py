"""The checks of `tftj doctor`: what a cluster must have to train a job, in the order of need."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.cli.cluster.cluster import Cluster
from tftraining_operator.cli.errors import CommandError
from tftraining_operator.cli.version import own_version
from tftraining_operator.cli.view.table import age
from tftraining_operator.core.times import parse

_Object = dict[str, Any]

_LEASE = "tftraining-operator"
_CHART = "app.kubernetes.io/name=tftraining-operator"
_EXPIRED = timedelta(seconds=60)
_RIGHTS = (
    ("list", keys.GROUP, keys.PLURAL, "list jobs"),
    ("create", keys.GROUP, keys.PLURAL, "create jobs"),
    ("patch", keys.GROUP, keys.PLURAL, "scale, suspend and resume jobs"),
    ("delete", keys.GROUP, keys.PLURAL, "delete jobs"),
    ("list", "", "pods", "read pods, for describe"),
    ("list", "", "events", "read events, for describe"),
    ("get", "", "pods/log", "read logs"),
    ("patch", "", "configmaps", "write ConfigMaps, to submit Python code"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    ok: bool
    text: str


def _ok(text: str) -> Check:
    return Check(ok=True, text=text)


def _missing(text: str) -> Check:
    return Check(ok=False, text=text)


def checks(cluster: Cluster, now: datetime) -> Iterator[Check]:
    """Check a cluster; what depends on something that is missing is not checked.

    Raises CommandError if the cluster does not answer.
    """
    server = cluster.read("/version") or {}
    yield _ok(f"cluster answers: Kubernetes {server.get('gitVersion', '?')}")
    served = cluster.read(f"/apis/{keys.API_VERSION}")
    if served is None:
        yield _missing(
            f"the API {keys.API_VERSION} is not served: install the operator's chart (helm install"
            " tftraining charts/tftraining-operator)",
        )
        return
    yield _ok(f"the API {keys.API_VERSION} is served")
    yield from _operator(cluster, now)
    for verb, group, resource, what in _RIGHTS:
        allowed = cluster.may(verb, group, resource)
        where = f"in namespace {cluster.namespace}"
        fix = f": ask for the right to {verb} {resource}" if not allowed else ""
        yield Check(allowed, f"you may {what} {where}" if allowed else f"{what} {where}{fix}")


def _operator(cluster: Cluster, now: datetime) -> Iterator[Check]:
    """Find the operator by its lease, which the process that works renews."""
    try:
        found = cluster.read("/apis/coordination.k8s.io/v1/leases") or {}
    except CommandError:
        yield _ok("you may not read leases of all namespaces, so the operator is not checked")
        return
    leases = [each for each in found.get("items", []) if each["metadata"]["name"] == _LEASE]
    held = [each for each in leases if _renewed(each, now)]
    if not held:
        last = leases[0]["metadata"]["namespace"] if leases else None
        yield _missing(
            f"the operator does not run; look at its pods: kubectl get pods -n {last}"
            if last
            else "the operator never ran here: install its chart, or look at its Deployment",
        )
        return
    for lease in held:
        namespace = lease["metadata"]["namespace"]
        spec = lease["spec"]
        yield _ok(
            f"the operator runs in namespace {namespace} ({spec['holderIdentity']} leads for"
            f" {age(spec.get('acquireTime'), now)})",
        )
        yield from _version(cluster, namespace)


def _renewed(lease: _Object, now: datetime) -> bool:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    return now - parse(spec["renewTime"]) < _EXPIRED


def _version(cluster: Cluster, namespace: str) -> Iterator[Check]:
    """Compare the version of the operator's Deployment with that of tftj."""
    try:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments?labelSelector={_CHART}"
        found = (cluster.read(path) or {}).get("items", [])
    except CommandError:
        return
    own = own_version()
    for each in found:
        version = (each["metadata"].get("labels") or {}).get("app.kubernetes.io/version")
        if version is None:
            continue
        same = own in (None, version)
        text = f"operator {version}" + (f", tftj {own}" if own else "")
        fix = "" if same else ": install the tftj of the operator's version"
        yield Check(same, f"{text}{fix}")
