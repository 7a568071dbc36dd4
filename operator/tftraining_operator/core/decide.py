"""What is to become of a job: the one place where that is decided, and when to look again.

The pass (reconcile/reconciler.py) asks once. Policies (core/policies) say what they want; whether
a new attempt begins is asked in core/attempts.py.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import GangStatus, QueueStatus
from tftraining_operator.core import queueing, workload_changes
from tftraining_operator.core.attempts import new_attempt, resized_gang
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.decision import Decision, Phase, stay
from tftraining_operator.core.exit_codes import failure_reason
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import (
    explained_by,
    group_names,
    is_in_the_way,
    needs_group,
    next_gang,
)
from tftraining_operator.core.job import InvalidJobError, Job
from tftraining_operator.core.messages import describe_pod_failure, startup_culprit
from tftraining_operator.core.observed import Observed, Pod, PodGroup
from tftraining_operator.core.policies import (
    cleanup,
    creation,
    deadlines,
    failure,
    stall,
    success,
    suspension,
    termination,
)
from tftraining_operator.core.policies.creation import Slot
from tftraining_operator.core.policies.isolation import isolation
from tftraining_operator.core.policies.membership import Membership, membership
from tftraining_operator.core.policies.protection import protection
from tftraining_operator.core.policies.reachability import reachability
from tftraining_operator.core.policies.removal import Removal, first_of_each_pod
from tftraining_operator.core.policies.servers import lost_servers
from tftraining_operator.core.status_running import no_workers

_READ_AGAIN = timedelta(seconds=5)
"""After which what belongs to a queue and could not be read is read again."""


def decide(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    """Decide. Raises SchedulerUnavailableError, InvalidJobError."""
    if job.dispatched:
        return _dispatched(job, observed, facts, now)
    isolated = isolation(job, observed, facts, now)
    found = _decide(job, observed, facts, now)
    protected = protection(job, observed, facts, now, trains=found.phase is Phase.ACTIVE)
    moments = (found.look_again, isolated.policy.due, protected.due)
    # Without it no pod would find another.
    lacks_service = not observed.has_service and _is_service_refused(job, facts, now)
    return replace(
        found,
        isolation=isolated,
        protection=protected,
        workload=workload_changes.adoption(job, observed, facts, now) or found.workload,
        creations=() if isolated.blocks_pods or lacks_service else found.creations,
        look_again=min((moment for moment in moments if moment is not None), default=None),
    )


def _decide(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    """Terminal ends are absorbing; success comes before failure, failure before waiting."""
    if is_finished(job.status):
        return _finished(job, observed, facts, now)
    completed = success.chief_completed(job, observed, now)
    if completed is not None:
        return _completed(job, observed, facts, completed, now)
    if suspension.suspends(job, observed):
        return _suspended(job, observed, facts, now)
    queue = queueing.next_queue(job, observed, facts, now)
    if queue is not None and queueing.waits(queue):
        is_new = queueing.left(job) == job.status.queue
        if is_new or (observed.workload is None and not observed.pods):
            # It enters the queue now; a gang that cannot be placed must not take quota.
            next_gang(job, observed, facts.offer, now)
        return _queued(job, observed, facts, queue, now)
    gang = next_gang(job, observed, facts.offer, now)
    if queueing.waits(job.status.queue) or queueing.enters(job.status.queue, queue):
        # Stored first: for how many workers there is quota, or that there is no queue any more.
        return replace(stay(job, Phase.ACTIVE), gang=gang, queue=queue, look_again=now)
    found = (
        _fatal(job, observed)
        or _deadline_passed(job, observed, facts, now)
        or resized_gang(job, observed, gang, now)
        or new_attempt(job, observed, facts, now)
        or _active(job, observed, facts, gang, now)
    )
    return replace(found, gang=gang, queue=queue)


def _finished(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    expiry, unwanted = deadlines.expiry(job), cleanup.pods_to_clean(job, observed)
    saving = termination.is_saving(job, observed, unwanted, facts.undeletable)
    if expiry is not None and now >= expiry and not saving:
        return replace(stay(job, Phase.FINISHED), delete_job=True)
    ending = termination.end_in_order(job, observed, unwanted, now)
    lost = termination.overdue(job, observed)
    return _schedule(
        job,
        replace(
            stay(job, Phase.FINISHED),
            delete_groups=_groups_but(None, observed),
            workload=workload_changes.at_the_end(job, observed, facts, now),
        ),
        [*ending, *lost],
        facts,
        now,
        expiry,
    )


def _completed(
    job: Job, observed: Observed, facts: Facts, completed: datetime, now: datetime
) -> Decision:
    missing = success.evaluation_missing(job, observed, completed, now)
    if missing is not None:
        reason = Reason.NOT_EVALUATED if missing else Reason.CHIEF_SUCCEEDED
        message = "the chief succeeded"
        if missing:
            message += f"; the last checkpoint was not evaluated: {missing}"
        found = stay(job, Phase.SUCCEEDED, reason, message)
        return replace(found, chief_completed=completed)
    found = replace(
        stay(
            job,
            Phase.EVALUATING,
            Reason.EVALUATING,
            "the chief succeeded; the evaluator finishes the last checkpoint",
        ),
        chief_completed=completed,
    )
    grace_ends = deadlines.evaluator_deadline(job, completed)
    if job.status.chief_completion_time is None:
        return replace(found, look_again=grace_ends)
    released = [Removal(pod, now) for pod in cleanup.servers_to_release(job, observed)]
    lost = [r for r in lost_servers(job, observed, now) if r.pod.role is Role.EVALUATOR]
    created = creation.missing_evaluator(job, observed, facts, now)
    found = replace(
        _created(observed, facts, found, created.slots),
        workload=workload_changes.while_admitted(job, observed, facts, now),
    )
    overdue = termination.overdue(job, observed, made_again=(Role.EVALUATOR,))
    removals = [*released, *lost, *overdue]
    again = _read_again(facts, now)
    return _schedule(job, found, removals, facts, now, grace_ends, created.due, again)


def _suspended(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    found = replace(
        stay(job, Phase.SUSPENDED, Reason.SUSPENDED, suspension.message(job)),
        gang=None,
        queue=queueing.left(job),
        delete_groups=_groups_but(None, observed),
        workload=workload_changes.without_queue(job, observed, facts, now),
    )
    return _without_pods(job, observed, facts, found, now)


def _dispatched(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    """Of a job that another cluster runs: it has a Workload, and a status of ours while it waits.

    Kueue copies the status from the other cluster, and writes it over ours.
    """
    if is_finished(job.status):
        expiry = deadlines.expiry(job)
        found = replace(stay(job, Phase.DISPATCHED), look_again=expiry)
        return replace(found, delete_job=expiry is not None and now >= expiry)
    if job.spec.run_policy.suspend:
        return _suspended(job, observed, facts, now)
    workload = observed.workload
    if workload is not None and (workload.admitted or workload.finished):
        change = workload_changes.while_dispatched(job, workload, facts, now)
        return replace(stay(job, Phase.DISPATCHED), workload=change)
    if not facts.offer.kueue and job.status.queue is not None:
        return stay(job, Phase.DISPATCHED)  # no evidence: its API may be away for an upgrade
    queue = queueing.next_queue(job, observed, facts, now)
    if queue is None:
        raise InvalidJobError(
            f"spec.managedBy is {keys.MULTIKUEUE}, but the job is in no queue: set its label "
            f"{keys.LABEL_QUEUE} to a LocalQueue"
        )
    return _queued(job, observed, facts, queue, now)


def _queued(
    job: Job, observed: Observed, facts: Facts, queue: QueueStatus, now: datetime
) -> Decision:
    message = queueing.describe_waiting(job, queue, observed, facts)
    found = replace(
        stay(job, Phase.QUEUED, Reason.QUEUED, message),
        gang=None,
        queue=queue,
        delete_groups=_groups_but(None, observed),
        workload=workload_changes.while_waiting(job, observed, queue, facts, now),
    )
    return _without_pods(job, observed, facts, found, now)


def _without_pods(
    job: Job, observed: Observed, facts: Facts, found: Decision, now: datetime
) -> Decision:
    """Complete the decision for a job that is to have no pods: the chief saves, then all end."""
    pods = list(observed.pods.values())
    if not pods:
        # The next chief is another pod, so it gets a number of its own, and a whole cluster.
        found = replace(
            found,
            attempt=job.status.attempt + (job.status.chief_uid is not None),
            membership=Membership(job.spec.replicas(Role.WORKER)),
        )
    ending = termination.end_in_order(job, observed, pods, now)
    lost = termination.overdue(job, observed)
    return _schedule(job, found, [*ending, *lost], facts, now, _read_again(facts, now))


def _created(
    observed: Observed, facts: Facts, found: Decision, slots: tuple[Slot, ...]
) -> Decision:
    """Add the pods to create, once it is known what they carry."""
    admitted = queueing.admitted_pods(observed, found.queue, facts, slots)
    if admitted is None:
        return found
    return replace(found, creations=tuple(admitted), admitted=admitted)


def _fatal(job: Job, observed: Observed) -> Decision | None:
    culprit = failure.fatal(job, observed)
    if culprit is None:
        return None
    reason = failure_reason(culprit.failure)
    return stay(job, Phase.FAILED, reason, describe_pod_failure(culprit), culprit)


def _deadline_passed(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision | None:
    policy = job.spec.run_policy
    active = deadlines.active_deadline(job)
    if active is not None and now >= active:
        limit = f"activeDeadlineSeconds ({policy.active_deadline_seconds} s)"
        message = f"not finished within {limit}"
        return stay(job, Phase.FAILED, Reason.DEADLINE_EXCEEDED, message)
    chief = observed.get(Role.CHIEF)
    # It runs, whatever the status has not noted yet.
    runs = chief is not None and chief.counts_as_ready and not failure.is_stale(job, chief)
    startup = deadlines.startup_deadline(job)
    if not runs and startup is not None and now >= startup:
        limit = f"startupDeadlineSeconds ({policy.startup_deadline_seconds} s)"
        message = f"not running within {limit}: {startup_culprit(job, observed, facts, now)}"
        return stay(job, Phase.FAILED, Reason.STARTUP_DEADLINE_EXCEEDED, message)
    trains = runs and not no_workers(job, observed, facts)
    recovery = deadlines.recovery_deadline(job)
    if not trains and recovery is not None and now >= recovery:
        limit = f"recoveryDeadlineSeconds ({policy.recovery_deadline_seconds} s)"
        message = f"not running again within {limit}: {startup_culprit(job, observed, facts, now)}"
        return stay(job, Phase.FAILED, Reason.RECOVERY_DEADLINE_EXCEEDED, message)
    return None


def _active(
    job: Job, observed: Observed, facts: Facts, gang: GangStatus | None, now: datetime
) -> Decision:
    members = membership(job, observed, now)
    if members.change(job) is not None:
        # No chief knows the present cluster: the new one is stored, then pods are made for it.
        return replace(stay(job, Phase.ACTIVE), membership=members, look_again=now)
    unwanted = [
        pod
        for pod in observed.pods.values()
        if _is_unwanted(job, pod) or is_in_the_way(job, gang, pod)
    ]
    known = {pod.uid for pod in unwanted}
    found = reachability(job, observed, facts, now)
    removals = [
        *termination.end_in_order(job, observed, unwanted, now),
        *termination.overdue(job, observed, made_again=tuple(Role)),
        *(r for r in lost_servers(job, observed, now) if r.pod.uid not in known),
        *found.replacements,
    ]
    created = creation.missing_pods(job, observed, facts, gang, now)
    age = stall.newest_step(job, observed, facts, now)
    service_refused = _is_service_refused(job, facts, now)
    decision = replace(
        stay(job, Phase.ACTIVE),
        membership=members,
        wants_service=not service_refused,
        delete_service=observed.service_is_changed and not service_refused,
        group_version=_group_version(gang, facts, now),
        delete_groups=_groups_but(gang, observed),
        suspicion=found.suspicion,
        workload=workload_changes.while_admitted(job, observed, facts, now),
    )
    return _schedule(
        job,
        _created(observed, facts, decision, created.slots),
        removals,
        facts,
        now,
        created.due,
        members.due,
        deadlines.active_deadline(job),
        deadlines.startup_deadline(job),
        deadlines.recovery_deadline(job),
        stall.next_look(job, facts.reports.get(Role.CHIEF), age, now),
        age.awaited_until,
        explained_by(gang),
        _read_again(facts, now),
        *(pod.startup_recheck_at for pod in observed.pods.values()),
    )


def _schedule(
    job: Job,
    decision: Decision,
    removals: list[Removal],
    facts: Facts,
    now: datetime,
    *moments: datetime | None,
) -> Decision:
    """Split removals into those that are due and the rest; note when to look again."""
    refused = facts.undeletable if facts.waits(now) else {}
    wanted = [r for r in first_of_each_pod(removals) if r.pod.name not in refused]
    waits = [
        *(removal.due for removal in wanted),
        *(moment for moment in moments if moment is not None),
        *([facts.retry_at] if facts.retry_at is not None else []),
    ]
    stored = {known.uid for known in job.status.replacements}
    removed: list[Removal] = []
    announced: list[Removal] = []
    for removal in wanted:
        if removal.due <= now:
            is_new = removal.is_replacement and removal.pod.uid not in stored
            (announced if is_new else removed).append(removal)
    return replace(
        decision,
        removals=tuple(removed),
        announced=tuple(announced),
        look_again=min((moment for moment in waits if moment > now), default=None),
    )


def _read_again(facts: Facts, now: datetime) -> datetime | None:
    return now + _READ_AGAIN if facts.queue.is_incomplete else None


def _is_service_refused(job: Job, facts: Facts, now: datetime) -> bool:
    """Tell whether the service, or its deletion, was refused, and is not tried again now."""
    return facts.waits(now) and job.name in facts.refused


def _group_version(gang: GangStatus | None, facts: Facts, now: datetime) -> str:
    refused = any(name in facts.refused for name in group_names(gang))
    if gang is None or (facts.waits(now) and refused):
        return ""
    if gang.scheduler not in facts.offer.versions and not needs_group(gang):
        return ""  # it is refused, and a job that runs goes on when its scheduler is gone
    return facts.offer.version(gang.scheduler)


def _groups_but(gang: GangStatus | None, observed: Observed) -> tuple[PodGroup, ...]:
    """Return the groups to delete: all but those of the gang and of the pods after it."""
    kept = group_names(gang)
    return tuple(each for each in observed.groups if each.name not in kept and not each.deleting)


def _is_unwanted(job: Job, pod: Pod) -> bool:
    return pod.index >= job.desired(pod.role) or failure.is_stale(job, pod)
