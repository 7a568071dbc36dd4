"""The checks of `tftj doctor`: what a cluster must have to train a job, in the order of need."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from tftraining_operator.api import keys
from tftraining_operator.core.naming import lease_name
from tftraining_operator.core.times import parse

from tftraining.cli.version import own_version
from tftraining.cluster.cluster import Cluster
from tftraining.errors import ForbiddenError, TFTrainingError
from tftraining.view.table import age

_Object = dict[str, Any]

_CHART = "app.kubernetes.io/name=tftraining-operator"
_EXPIRED = timedelta(seconds=60)
_LOOKS, _LOOK_SECONDS = 5, 2.0
"""A process that works renews its lease several times meanwhile."""
_SHARDS = "TFTRAINING_SHARDS"
_NAMESPACES = "TFTRAINING_NAMESPACES"
"""The variable by which an operator is told which namespaces to serve."""
_RIGHTS = (
    ("list", keys.GROUP, keys.PLURAL, "list jobs"),
    ("create", keys.GROUP, keys.PLURAL, "create jobs"),
    ("patch", keys.GROUP, keys.PLURAL, "scale, suspend and resume jobs"),
    ("delete", keys.GROUP, keys.PLURAL, "delete jobs"),
    ("list", "", "pods", "read pods, for describe"),
    ("list", "", "events", "read events, for describe"),
    ("get", "", "pods/log", "read logs"),
    ("patch", "", "configmaps", "write ConfigMaps, to submit Python code"),
    ("list", "", "configmaps", "list ConfigMaps, to restart jobs that have ended"),
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

    Raises TFTrainingError if the cluster does not answer.
    """
    server = cluster.read("/version") or {}
    yield _ok(f"cluster answers: Kubernetes {server.get('gitVersion', '?')}")
    served = cluster.read(f"/apis/{keys.API_VERSION}")
    if served is None:
        yield _missing(
            f"the API {keys.API_VERSION} is not served: install the operator's chart (helm install"
            " tftraining charts/tftraining-operator -n tftraining-system --create-namespace)",
        )
        return
    yield _ok(f"the API {keys.API_VERSION} is served")
    yield from _operator(cluster, now)
    yield from _namespace(cluster)
    for verb, group, resource, what in _RIGHTS:
        allowed = cluster.may(verb, group, resource)
        may = "may" if allowed else "may not"
        fix = "" if allowed else f": ask for the right to {verb} {resource}"
        text = f"in namespace {cluster.namespace} you {may} {what}{fix}"
        yield Check(ok=allowed, text=text)


def _operator(cluster: Cluster, now: datetime) -> Iterator[Check]:
    """Find the operators by their Deployments, and whether one of each one's processes works."""
    path = f"/apis/apps/v1/deployments?labelSelector={_CHART}"
    try:
        found = (cluster.read(path) or {}).get("items", [])
    except TFTrainingError:
        yield _ok("you may not read Deployments of all namespaces: the operator is not checked")
        return
    if not found:
        yield _missing("no operator is installed by its chart in any namespace: install it")
        return
    for each in found:
        shards = _shards(each)
        for shard in range(shards):
            yield _leads(cluster, each, shard if shards > 1 else None, now)
        yield from _same_version(each)
    yield _serves(found, cluster.namespace)


def _namespace(cluster: Cluster) -> Iterator[Check]:
    """Find a namespace that does not exist: some may do everything in that as well."""
    with contextlib.suppress(ForbiddenError):
        if cluster.read(f"/api/v1/namespaces/{quote(cluster.namespace)}") is None:
            yield _missing(
                f"there is no namespace {cluster.namespace}: create it, or name another one (-n)"
            )


def _serves(deployments: Sequence[_Object], namespace: str) -> Check:
    """Tell whether one of the operators works on the jobs of a namespace."""
    watched = [_watched(each) for each in deployments]
    if any(not names or namespace in names for names in watched):
        return _ok(f"an operator serves namespace {namespace}")
    others = ", ".join(sorted({name for names in watched for name in names}))
    return _missing(
        f"no operator serves namespace {namespace}, only {others}: add it to watchNamespaces of the"
        " chart"
    )


def _watched(deployment: _Object) -> frozenset[str]:
    """Return the namespaces that an operator is told to serve; none are all."""
    names = _variable(deployment, _NAMESPACES).split(",")
    return frozenset(name.strip() for name in names if name.strip())


def _shards(deployment: _Object) -> int:
    """Return into how many shards an operator divides the jobs."""
    given = _variable(deployment, _SHARDS)
    return max(1, int(given)) if given.isdecimal() else 1


def _variable(deployment: _Object, name: str) -> str:
    """Return what an operator is told by a variable, "" if nothing."""
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    variables = (v for each in pod.get("containers") or [] for v in each.get("env") or [])
    return next((str(v.get("value") or "") for v in variables if v.get("name") == name), "")


def _leads(cluster: Cluster, deployment: _Object, shard: int | None, now: datetime) -> Check:
    """Tell by its lease, which the process that works renews, whether an operator runs.

    `shard` is one of its shards, None for an operator without any.
    """
    namespace = deployment["metadata"]["namespace"]
    name = lease_name(deployment["metadata"]["name"], shard or 0)
    part = f"shard {shard} of " if shard is not None else ""
    who = f"{part}the operator in namespace {namespace}"
    fix = f"look at its pods (kubectl get pods -n {namespace})"
    try:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        lease = (cluster.read(path) or {}).get("spec") or {}
    except TFTrainingError:
        return _ok(f"you may not read the lease of {who}")
    holder, renewed = lease.get("holderIdentity"), lease.get("renewTime")
    if not holder or not renewed:
        return _missing(f"{who} does not run: {fix}")
    silent = now - parse(renewed)
    if abs(silent) > _EXPIRED and not _is_renewed(cluster, path, renewed):
        how_long = f" for {age(renewed, now)}" if silent > _EXPIRED else ""
        return _missing(f"{who} is silent{how_long}: {fix}")
    since = age(lease.get("acquireTime"), now)
    return _ok(f"{part}the operator runs in namespace {namespace} ({holder} leads for {since})")


def _is_renewed(cluster: Cluster, path: str, renewed: str) -> bool:
    """Tell whether a lease is renewed that seems old, or of the future.

    The clocks of this computer and of the operator's may be apart.
    """
    for _ in range(_LOOKS):
        time.sleep(_LOOK_SECONDS)
        lease = (cluster.read(path) or {}).get("spec") or {}
        if lease.get("renewTime") != renewed:
            return True
    return False


def _same_version(deployment: _Object) -> Iterator[Check]:
    """Compare the operator's version with that of tftj."""
    version = (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/version")
    own = own_version()
    if version is None or own is None:
        return
    same = version == own
    fix = "" if same else ": install the tftj of the operator's version"
    yield Check(ok=same, text=f"operator {version}, tftj {own}{fix}")
