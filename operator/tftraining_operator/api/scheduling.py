"""The part of a job's spec that says how its pods get their nodes. Read by core/gang.py."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tftraining_operator.api.base import Model

_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_KEY = rf"^({_PART}/)?{_PART}$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
LabelKey = Annotated[str, Field(max_length=317, pattern=_LABEL_KEY)]


class Gang(StrEnum):
    """Which scheduler gives the pods of the training cluster their nodes all at once."""

    AUTO = "Auto"
    IN_TREE = "InTree"
    POD_GROUP = "PodGroup"
    VOLCANO = "Volcano"
    NONE = "None"


class Topology(Model):
    """Preference for nodes that are close to each other, or apart. Set exactly one field."""

    pack: LabelKey | None = None
    """Node label, such as topology.kubernetes.io/zone: prefer nodes with the same value."""
    spread: LabelKey | None = None
    """Node label, such as kubernetes.io/hostname: prefer an equal number of pods per value."""


class Scheduling(Model):
    """Queue, priority, gang and topology of the pods."""

    gang: Gang | None = None
    """Give nodes to all pods that training needs at once, or to none. InTree: Kubernetes' own
    scheduler, with the feature gate GenericWorkload. PodGroup: the coscheduling plugin of
    scheduler-plugins. Volcano: Volcano. Auto, the default: InTree if the cluster has it, otherwise
    None."""
    queue: ObjectName | None = None
    """Queue in which the job waits for quota: a LocalQueue of Kueue in the job's namespace, or with
    gang Volcano a queue of Volcano. The label kueue.x-k8s.io/queue-name of the job does the same
    for Kueue."""
    elastic: bool | None = None
    """Ask Kueue for worker.minReplicas workers at first, and for the others, separately, while the
    job trains, so that it can preempt those alone. By default a job asks for all at once."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of all pods."""
    topology: Topology | None = None
    """Preference for nodes that are close to each other, or apart."""
