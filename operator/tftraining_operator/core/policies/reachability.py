"""Which servers are replaced because the chief cannot reach them.

A process that hangs keeps its port open, and a cut network does not stop the kubelet's probes: such
a pod is Ready, and only the chief, which asks every server each 2 s, can tell. But its word alone
is weak: a server that was not asked or whose name did not resolve proves nothing, nor does what
happened at an address that is not the pod's, as a name server that is behind gives one; and when
most servers are out of reach it is the chief that is cut off.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import pod_of_task
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.core.policies.servers import all_servers, replacement_due
from tftraining_operator.core.progress import PeerCause, UnreachablePeer
from tftraining_operator.core.times import parse

SILENT_SECONDS = 20.0
"""A server that answers nothing for so long hangs or is cut off: as patient as gRPC (ADR 024)."""

SILENT_AT_START_SECONDS = 10.0
"""The same before the chief has made a step: nothing is lost with the server."""

_HUNG_GRACE = 1
"""Seconds for a server that answers nothing: no SIGTERM reaches it, and it has nothing to save."""

_NO_EVIDENCE = frozenset({PeerCause.NOT_ASKED, PeerCause.NOT_RESOLVED})


@dataclass(frozen=True, slots=True)
class Reachability:
    """What follows from the chief's report on its servers."""

    replacements: tuple[Removal, ...] = ()
    suspicion: str = ""
    """Why nothing is replaced though servers are out of reach; empty if there is no such doubt."""


NOTHING_KNOWN = Reachability()


def reachability(job: Job, observed: Observed, facts: Facts, now: datetime) -> Reachability:
    """Judge the present chief's fresh report; without one nothing is known."""
    report = facts.fresh_report(observed.get(Role.CHIEF), now)
    if report is None:
        return NOTHING_KNOWN
    servers = all_servers(job)
    # A script may say when its first step is due, and wait for its servers meanwhile.
    since_step = report.seconds_since_step if not report.waiting_for else None
    limit = SILENT_AT_START_SECONDS if since_step is None else SILENT_SECONDS
    out_of_reach = {
        pod_of_task(job.name, peer.task): peer
        for peer in report.unreachable
        if peer.seconds >= limit
    }
    proven = {n: peer for n, peer in out_of_reach.items() if peer.cause not in _NO_EVIDENCE}
    if len(out_of_reach) * 2 > len(servers):
        return Reachability(
            suspicion=f"the chief cannot reach {len(out_of_reach)} of {len(servers)} servers; it"
            " may itself be cut off, so no server is replaced"
        )
    # Steps are made on the variables of the ps: while there are some, only the asking is slow.
    steps = since_step is not None and since_step < limit
    found = [
        _replacement(job, pod, proven[pod.name], limit, now)
        for role, index in servers
        if (pod := observed.get(role, index)) is not None
        and pod.name in proven
        and _is_about(proven[pod.name], pod)
        and not (steps and role is Role.PS)
        and pod.ready
        and not pod.deleting
    ]
    return Reachability(replacements=tuple(found))


def _is_about(peer: UnreachablePeer, pod: Pod) -> bool:
    """Tell whether it was this pod that did not answer, as far as the addresses tell."""
    return peer.address is None or not pod.addresses or peer.address in pod.addresses


def _replacement(job: Job, pod: Pod, peer: UnreachablePeer, limit: float, now: datetime) -> Removal:
    cause = f"the chief cannot reach it for {peer.seconds:.0f} s"
    # What was reported may still be of the pod before this one.
    settled = parse(pod.ready_since) if pod.ready_since else now
    due = max(replacement_due(job, pod, now), settled + timedelta(seconds=limit))
    return Removal(
        pod,
        due,
        cause=f"{cause} ({peer.reason})" if peer.reason else cause,
        grace=_HUNG_GRACE,
    )
