"""Kubernetes' own gang scheduling: PodGroup of scheduling.k8s.io.

It is v1alpha2 in Kubernetes 1.36, and v1beta1 in 1.37, where a group has a priority and its pods
have to have the same one.

A PodGroup alone is enough: a Workload is a template for several of them, and we have one. Pods of
an incomplete gang get no condition and no event; those of a complete one that does not fit do.
"""

from typing import Any

from tftraining_operator.core.schedulers.scheduler import Carried, Group, GroupApi, condition

_Object = dict[str, Any]

_WITHOUT_PRIORITY = "v1alpha2"
_SCHEDULED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
"""What the versions call the condition, the newest first."""


class InTree:
    """The scheduler that every cluster has."""

    api = GroupApi(
        group="scheduling.k8s.io",
        versions=("v1beta1", "v1alpha2"),
        needs=(
            "Kubernetes 1.37 with the feature gate GenericWorkload and"
            " --runtime-config=scheduling.k8s.io/v1beta1=true, or 1.36 with GenericWorkload,"
            " GangScheduling and --runtime-config=scheduling.k8s.io/v1alpha2=true"
        ),
        value="scheduling.inTree",
    )
    groups_later_pods = False

    def group_spec(self, group: Group) -> _Object:
        """Return the spec of a PodGroup."""
        spec: _Object = {"schedulingPolicy": {"gang": {"minCount": group.members}}}
        if group.priority_class_name and group.version != _WITHOUT_PRIORITY:
            spec["priorityClassName"] = group.priority_class_name
        return spec

    def member(self, group: str) -> Carried:
        """Return what a pod of the gang carries."""
        return Carried(spec={"schedulingGroup": {"podGroupName": group}})

    def single(self, group: str | None) -> Carried:  # noqa: ARG002 - see groups_later_pods
        """Return nothing: a pod without a group is an ordinary pod."""
        return Carried()

    def explanation(self, group: _Object) -> str:
        """Return the message of the condition that it is scheduled, while that is False."""
        found = next(filter(None, (condition(group, kind) for kind in _SCHEDULED)), {})
        return str(found.get("message") or "") if found.get("status") == "False" else ""

    def pod_explanation(self, message: str) -> str:
        """Return the message as it is."""
        return message
