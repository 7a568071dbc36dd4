"""Translates a decision into calls and objects; decides nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core import desired
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.gang import group_names, needs_group
from tftraining_operator.core.history import was_started
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import pod_name
from tftraining_operator.core.observed import Observed, PodGroup
from tftraining_operator.core.pod_metadata import PodMetadata
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.core.workload_body import WorkloadChange


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to create. Its body, with a TF_CONFIG that names all tasks, is made in its turn."""

    name: str
    make: Callable[[], dict[str, Any]]
    """Return the body, the same each time; who calls it keeps it no longer than the call takes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to make, in this order: deletes, service, NetworkPolicy, group, pods, and the rest."""

    removals: tuple[Removal, ...] = ()
    servers_are_done: bool = False
    """Whether the job will never have workers and parameter servers again."""
    delete_service: bool = False
    service: dict[str, Any] | None = None
    delete_network_policy: bool = False
    network_policy: dict[str, Any] | None = None
    """The NetworkPolicy to create or, if it has a resourceVersion, to write over the one known."""
    requires_network_policy: bool = False
    """Whether no pod may be created without it."""
    delete_groups: tuple[PodGroup, ...] = ()
    groups: tuple[tuple[Gang, dict[str, Any]], ...] = ()
    """The groups to create, each with the scheduler that it is for."""
    requires_groups: bool = False
    """Whether pods that are created now are in one."""
    pods: list[NewPod] = field(default_factory=list)
    refused: dict[str, Cause] = field(default_factory=dict)
    """Pods of a started job that cannot be made as its spec asks for, by name: the others are."""
    workload: WorkloadChange | None = None
    delete_disruption_budget: bool = False
    disruption_budget: dict[str, Any] | None = None
    """The PodDisruptionBudget to create or, as above, to write over the one known."""
    delete_job: bool = False

    @property
    def changes_anything(self) -> bool:
        """Whether there is a call to make."""
        calls = replace(
            self, servers_are_done=False, requires_network_policy=False, requires_groups=False
        )
        return calls != Plan()


def make_plan(
    job: Job,
    observed: Observed,
    decision: Decision,
    trainer_image: str,
    given: PodMetadata = PodMetadata(),  # noqa: B008 - frozen
) -> Plan:
    """Return the calls that carry out a decision.

    Raises InvalidTemplateError for a job that was never started.
    """
    missing = decision.wants_service and not (observed.has_service or observed.service_occupied)
    pods, refused = _pods(job, decision, trainer_image, given)
    return Plan(
        removals=decision.removals,
        servers_are_done=decision.phase in (Phase.EVALUATING, Phase.FINISHED),
        delete_service=decision.delete_service,
        service=desired.service(job) if missing else None,
        delete_network_policy=decision.isolation.policy.delete,
        network_policy=decision.isolation.policy.body(observed.network_policy),
        requires_network_policy=decision.isolation.required,
        delete_groups=decision.delete_groups,
        groups=_groups(job, observed, decision),
        requires_groups=decision.gang is not None and needs_group(decision.gang),
        pods=pods,
        refused=refused,
        workload=decision.workload,
        delete_disruption_budget=decision.protection.delete,
        disruption_budget=decision.protection.body(observed.disruption_budget),
        delete_job=decision.delete_job,
    )


def _groups(
    job: Job, observed: Observed, decision: Decision
) -> tuple[tuple[Gang, dict[str, Any]], ...]:
    gang, known = decision.gang, {each.name for each in observed.groups}
    if gang is None or not decision.group_version or known.issuperset(group_names(gang)):
        return ()
    made = desired.pod_groups(job, gang, decision.group_version)
    return tuple((gang.scheduler, body) for body in made if body["metadata"]["name"] not in known)


def _pods(
    job: Job, decision: Decision, trainer_image: str, given: PodMetadata
) -> tuple[list[NewPod], dict[str, Cause]]:
    """Return the pods to create, and by name why others cannot be made."""
    pods: list[NewPod] = []
    refused: dict[str, Cause] = {}
    problems: dict[tuple[desired.Variant, int], Cause | None] = {}
    for role, index in decision.creations:
        admitted = decision.admitted.get((role, index))
        pod = NewPod(
            pod_name(job.name, role, index),
            partial(
                desired.pod,
                job,
                role,
                index,
                job.status.attempt,
                trainer_image,
                given=given,
                gang=decision.gang,
                admitted=admitted,
            ),
        )
        # Pods that carry the same carry one object, which the decision keeps.
        kind = desired.variant(job, role, index), id(admitted)
        if kind not in problems:
            problems[kind] = _problem(job, pod)
        if (cause := problems[kind]) is None:
            pods.append(pod)
        else:
            refused[pod.name] = cause
    return pods, refused


def _problem(job: Job, pod: NewPod) -> Cause | None:
    """Return why a pod of a started job cannot be made, None if it can."""
    try:
        pod.make()
    except InvalidTemplateError as error:
        if not was_started(job.status):
            raise
        # A job that runs is not refused as a whole because it cannot grow.
        return Cause(Reason.INVALID_POD, str(error))
    return None
