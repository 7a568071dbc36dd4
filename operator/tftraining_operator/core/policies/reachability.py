"""Which servers have to be replaced because the chief cannot reach them.

A process that hangs keeps its port open, and a cut network does not stop the kubelet's probes: such
a pod is Ready, and only the chief, which asks every server each 2 s, can tell.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import pod_of_task
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.progress import Report
from tftraining_operator.core.times import parse

UNREACHABLE_SECONDS = 10.0
"""A server that answers nothing for so long hangs or is cut off; a busy one still answers."""

_FRESH = timedelta(seconds=15)
"""A report that is older says nothing of now: its chief may hang itself."""


def unreachable(
    job: Job, observed: Observed, reports: Mapping[Role, Report], now: datetime
) -> dict[Pod, str]:
    """Return the ready servers that the chief has not reached for too long, with its words."""
    report = reports.get(Role.CHIEF)
    if job.spec.strategy is not Strategy.PARAMETER_SERVER or report is None:
        return {}
    if report.received is None or now - report.received > _FRESH:
        return {}
    # Steps are made on the variables of the ps: while there are some, only the asking is slow.
    since_step = report.seconds_since_step
    steps = since_step is not None and since_step < UNREACHABLE_SECONDS
    said = {
        pod_of_task(job.name, peer.task): f"the chief cannot reach it for {peer.seconds:.0f} s"
        + (f" ({peer.reason})" if peer.reason else "")
        for peer in report.unreachable
        if peer.seconds >= UNREACHABLE_SECONDS
    }
    settled = now - timedelta(seconds=UNREACHABLE_SECONDS)
    return {
        pod: said[pod.name]
        for role in ((Role.WORKER,) if steps else (Role.PS, Role.WORKER))
        for pod in observed.of(role)
        if pod.name in said
        and pod.ready
        and not pod.deleting
        # What was said may still be of the pod before this one.
        and (pod.ready_since is None or parse(pod.ready_since) <= settled)
    }
