"""Sentences about pods that several parts of the status need."""

import re
from collections.abc import Sequence
from datetime import datetime

from tftraining_operator.api.keys import Role
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core.advice import deletion_advice
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.error_text import telling_line
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import explained_by, group_names
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import join_names, network_policy_name, pod_of_task
from tftraining_operator.core.observed import Observed, Pod, slots
from tftraining_operator.core.policies import isolation
from tftraining_operator.core.progress import PeerCause, Report, UnreachablePeer
from tftraining_operator.core.schedulers import SCHEDULERS
from tftraining_operator.core.times import parse

NOT_PLACED = frozenset({"Unschedulable", "SchedulingGated", Reason.NOT_SCHEDULED})
"""Causes by which a pod has no node."""

_ABOUT_NODES = re.compile(r"^\d+/\d+ nodes are ")
"""How kube-scheduler and those that are made of it say what each node lacks."""

_NO_CAUSE = frozenset({"", PeerCause.NOT_ASKED})
"""What a report says of a server of which it does not know why it does not answer."""


def describe_pod_failure(pod: Pod) -> str:
    """Say in one sentence how a pod failed."""
    return f"{pod.name} {describe_exit(pod.failure)}" if pod.failure else f"{pod.name} failed"


def describe_exit(cause: Cause) -> str:
    """Say in a few words how something failed, with the line of its message that says most."""
    code = f"exited with {cause.exit_code}" if cause.exit_code is not None else "failed"
    reason = f" ({cause.reason})" if cause.reason != Reason.EXIT_CODE else ""
    line = telling_line(cause.message)
    return f"{code}{reason}" + (f": {line}" if line else "")


def pods_not_ready(job: Job, observed: Observed, facts: Facts) -> list[tuple[str, Cause | None]]:
    """Return (pod name, cause if known) of every wanted pod that is not ready; causes first."""
    found: list[tuple[str, Cause | None]] = []
    for role, index, name in slots(job):
        pod = observed.get(role, index)
        if pod is not None and pod.counts_as_ready:
            continue
        found.append((name, facts.refused.get(name) or (pod.startup_problem if pod else None)))
    return sorted(found, key=lambda item: item[1] is None)


def describe_problem(name: str, cause: Cause) -> str:
    """Say what keeps a pod from running, where its reason does not stand beside it."""
    return f"{name}: {cause.reason}: {describe_cause(cause)}"


def describe_cause(cause: Cause) -> str:
    """Say what keeps a pod from running, for what has a reason of its own, as conditions have."""
    return cause.message or describe_exit(cause)


def unplaced_since(observed: Observed) -> str | None:
    """Return since when a pod waits for a node, of those that have none, None if all have one."""
    found = (
        pod.created_at
        for pod in observed.pods.values()
        if pod.startup_problem is not None and pod.startup_problem.reason in NOT_PLACED
    )
    return min((created for created in found if created is not None), key=parse, default=None)


def refused_objects(
    job: Job, gang: GangStatus | None, observed: Observed, facts: Facts
) -> list[tuple[str, Cause]]:
    """Return (what, cause) of the objects without which no pod is created, if they are refused.

    In a queue of Kueue, one may also be unreadable, or Kueue away.
    """
    wanted = {f"service {job.name}": job.name}
    wanted |= {f"PodGroup {name}": name for name in group_names(gang)}
    found = [(what, facts.refused[name]) for what, name in wanted.items() if name in facts.refused]
    if isolation.is_required(job) and (cause := isolation.problem(job, observed, facts)):
        found.append((f"NetworkPolicy {network_policy_name(job.name)}", cause))
    if problem := facts.queue.flavor_problem:
        unread = Cause(Reason.FLAVOR_UNREADABLE, problem)
        found.append((f"Workload {job.workload_name}", unread))
    if _misses_kueue(job, observed, facts):
        away = f"without Kueue no pod is created: {facts.offer.kueue_problem()}"
        cause = Cause(Reason.SCHEDULER_UNAVAILABLE, away)
        found.append((f"Workload {job.workload_name}", cause))
    return found


def _misses_kueue(job: Job, observed: Observed, facts: Facts) -> bool:
    """Tell whether a job lacks pods that need what is not known while Kueue is away."""
    if job.status.queue is None or facts.offer.kueue:
        return False
    return any(observed.get(role, index) is None for role, index, _ in slots(job))


def describe_queued(
    gang: GangStatus, job: Job, observed: Observed, facts: Facts, now: datetime
) -> str:
    """Say for what a gang waits, and since when; "" while its scheduler may only need a moment."""
    pods = [
        cause.message
        for _, cause in pods_not_ready(job, observed, facts)
        if cause is not None and cause.reason in NOT_PLACED
    ]
    # Where one pod finds no node, the others and their group only say that they wait for it.
    explained = [SCHEDULERS[gang.scheduler].pod_explanation(message) for message in pods]
    about_nodes = [message for message in explained if _ABOUT_NODES.search(message)]
    group = [known.explanation for known in observed.groups if known.name == gang.group]
    why = next((m for m in [*about_nodes, *group, *explained, *pods] if m), "")
    slow = explained_by(gang)
    if not why and (slow is None or now < slow):
        return ""
    said = why or f"its scheduler ({gang.scheduler}) has not said why"
    many = gang.members > 1
    nodes = f"nodes for all {gang.members} pods" if many else "a node for its pod"
    return f"waiting since {gang.waiting_since} for {nodes}: {said}"


def describe_unreachable(
    job: Job, observed: Observed, report: Report | None, *, for_seconds: float = 0
) -> str:
    """Say which servers the chief could not reach for so long, and why, by its report.

    "" if there are none. Those whose pods are not ready are left out: that is reason enough.
    """
    ready = {pod.name for pod in observed.pods.values() if pod.counts_as_ready}
    found: dict[str, list[UnreachablePeer]] = {}
    for peer in report.unreachable if report is not None else []:
        is_ready = pod_of_task(job.name, peer.task) in ready
        if is_ready and peer.seconds >= for_seconds and peer.cause not in _NO_CAUSE:
            found.setdefault(peer.cause, []).append(peer)
    return "; ".join(_describe_peers(job.name, peers) for peers in found.values())


def _describe_peers(job: str, peers: Sequence[UnreachablePeer]) -> str:
    """Say why servers cannot be reached that all have the same cause."""
    names = join_names([pod_of_task(job, peer.task) for peer in peers])
    cause, reason = peers[0].cause, peers[0].reason
    if cause == PeerCause.NOT_RESOLVED:
        return f"DNS does not resolve {names}: check Service {job} and the DNS of the cluster"
    if cause == PeerCause.REFUSED:
        return f"connection refused by {names}: check that TensorFlow's server listens there (logs)"
    if cause == PeerCause.TIMED_OUT:
        return (
            f"connection timed out to {names}: check NetworkPolicies and the nodes' network, and"
            " whether the process hangs (logs)"
        )
    return f"no connection to {names}" + (f": {reason}" if reason else "")


def startup_culprit(job: Job, observed: Observed, facts: Facts, now: datetime) -> str:
    """Name what keeps the job from running: the pod with a problem first, then who is not ready."""
    if refused := refused_objects(job, job.status.gang, observed, facts):
        return describe_problem(*refused[0])
    waiting = pods_not_ready(job, observed, facts)
    for name, cause in waiting:
        if cause is not None:
            return describe_problem(name, cause)
    if waiting:
        names = [name for name, _ in waiting]
        last = job.status.last_failure
        line = telling_line(last.message) if last is not None and last.pod in names else ""
        failed = f"{last.pod} failed before: {line}" if last is not None and line else ""
        report = facts.fresh_report(observed.get(Role.CHIEF), now)
        unreachable = describe_unreachable(job, observed, report)
        predecessor = describe_predecessor(job, observed, facts)
        parts = (f"not ready: {join_names(names)}", predecessor, failed, unreachable)
        return "; ".join(part for part in parts if part)
    chief = observed.get(Role.CHIEF)
    return f"{chief.name} did not become ready" if chief else "there is no chief"


def describe_predecessor(job: Job, observed: Observed, facts: Facts) -> str:
    """Say what of an earlier job of this name is in the way of the pods; "" for nothing.

    Which pods is left out: they go one by one, and then the rest.
    """
    if any(name in observed.occupied for _, _, name in slots(job)):
        return "pods of an earlier job of this name have not ended yet"
    kept = ""
    if observed.network_policy_occupied and isolation.policy(job, facts) is not NetworkPolicy.OPEN:
        kept = f"NetworkPolicy {network_policy_name(job.name)}"
    elif observed.service_occupied:
        kept = f"service {job.name}"
    if not kept:
        return ""
    return f"{kept} of an earlier job of this name is not gone yet: see its finalizers"


def describe_undeletable(facts: Facts) -> str:
    """Return which pods could not be deleted, and why the first of them could not."""
    names = sorted(facts.undeletable)
    pods, them = ("pods", "them") if len(names) > 1 else ("pod", "it")
    why = facts.undeletable[names[0]].message
    return f"could not delete {pods} {join_names(names)}: {why}; {deletion_advice(why, them)}"
