"""Kubernetes' own gang scheduling: PodGroup of scheduling.k8s.io/v1alpha2, Kubernetes 1.36.

A PodGroup alone is enough: a Workload is a template for several of them, and we have one. Pods of
an incomplete gang get no condition and no event; those of a complete one that does not fit do.
"""

from typing import Any

from tftraining_operator.core.schedulers.scheduler import Carried, Group, GroupApi, condition

_Object = dict[str, Any]


class InTree:
    """The scheduler that every cluster has."""

    api = GroupApi(
        group="scheduling.k8s.io",
        version="v1alpha2",
        needs=(
            "Kubernetes 1.36 with the feature gates GenericWorkload and GangScheduling and"
            " --runtime-config=scheduling.k8s.io/v1alpha2=true"
        ),
        value="scheduling.inTree",
    )

    def group_spec(self, group: Group) -> _Object:
        """Return the spec of a PodGroup."""
        return {"schedulingPolicy": {"gang": {"minCount": group.members}}}

    def member(self, group: str) -> Carried:
        """Return what a pod of the gang carries."""
        return Carried(spec={"schedulingGroup": {"podGroupName": group}})

    def single(self, queue: str | None) -> Carried:  # noqa: ARG002 - it has no queues
        """Return nothing: a pod without a group is an ordinary pod."""
        return Carried()

    def explanation(self, group: _Object) -> str:
        """Return the message of PodGroupScheduled while it is False."""
        found = condition(group, "PodGroupScheduled")
        return str(found.get("message") or "") if found.get("status") == "False" else ""

    def pod_explanation(self, message: str) -> str:
        """Return the message as it is."""
        return message
