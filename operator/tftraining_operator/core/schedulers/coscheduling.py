"""The coscheduling plugin of scheduler-plugins: PodGroup of scheduling.x-k8s.io/v1alpha1.

Only the spec is its own: the status is written by a controller that may be absent and mixes groups
of equal names, so it is not read. Why a gang waits, its pods say.
"""

from typing import Any

from tftraining_operator.core.schedulers.scheduler import Carried, Group, GroupApi

_Object = dict[str, Any]

_LABEL = "scheduling.x-k8s.io/pod-group"
_SCHEDULER = "scheduler-plugins-scheduler"
"""Its name as its own chart installs it; a template's schedulerName says another."""


class Coscheduling:
    """A second kube-scheduler with the plugin Coscheduling."""

    api = GroupApi(
        group="scheduling.x-k8s.io",
        version="v1alpha1",
        needs="the CRD of scheduler-plugins and its scheduler",
        value="scheduling.podGroup",
    )

    def group_spec(self, group: Group) -> _Object:
        """Return the spec of a PodGroup."""
        spec: _Object = {"minMember": group.members}
        if group.requests:
            spec["minResources"] = dict(group.requests)
        return spec

    def member(self, group: str) -> Carried:
        """Return what a pod of the gang carries."""
        return Carried(labels={_LABEL: group}, scheduler_name=_SCHEDULER)

    def single(self, queue: str | None) -> Carried:  # noqa: ARG002 - it has no queues
        """Return the scheduler alone: two schedulers would not know of each other's choices."""
        return Carried(scheduler_name=_SCHEDULER)

    def explanation(self, group: _Object) -> str:  # noqa: ARG002 - see the module's docstring
        """Return nothing."""
        return ""
