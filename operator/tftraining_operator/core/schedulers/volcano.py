"""Volcano: PodGroup of scheduling.volcano.sh/v1beta1.

A group is Pending until its queue has room for minResources, then Inqueue; only then does Volcano
look for nodes. Its webhook refuses a pod whose group is missing, so the group comes first.

For a pod without a group Volcano makes one that has to be let in: a worker that is made again would
wait for the room that the queue has promised to the next job, which waits for this one. In the
gang's own group it would wait where another pod of that has failed. So later pods have a group that
asks for nothing, which is let in at once.
"""

from typing import Any

from tftraining_operator.core.schedulers.scheduler import Carried, Group, GroupApi, condition

_Object = dict[str, Any]

_SCHEDULER = "volcano"
_GROUP = "scheduling.k8s.io/group-name"
_DEFAULT_QUEUE = "default"


class Volcano:
    """Volcano's scheduler."""

    api = GroupApi(
        group="scheduling.volcano.sh",
        versions=("v1beta1",),
        needs="Volcano",
        value="scheduling.volcano",
    )
    groups_later_pods = True

    def group_spec(self, group: Group) -> _Object:
        """Return the spec of a PodGroup."""
        spec: _Object = {"minMember": group.members, "queue": group.queue or _DEFAULT_QUEUE}
        if group.requests:
            spec["minResources"] = dict(group.requests)
        if group.priority_class_name:
            spec["priorityClassName"] = group.priority_class_name
        return spec

    def member(self, group: str) -> Carried:
        """Return what a pod of the gang carries."""
        return Carried(annotations={_GROUP: group}, scheduler_name=_SCHEDULER)

    def single(self, group: str | None) -> Carried:
        """Return what a later pod carries."""
        return Carried(annotations={_GROUP: group} if group else {}, scheduler_name=_SCHEDULER)

    def explanation(self, group: _Object) -> str:
        """Return why the queue has not let it in, or why it finds no nodes."""
        status, spec = group.get("status") or {}, group.get("spec") or {}
        found = condition(group, "Unschedulable")
        said = str(found.get("message") or "") if found.get("status") == "True" else ""
        if status.get("phase", "Pending") == "Pending":
            queue = f"Volcano's queue {spec.get('queue') or _DEFAULT_QUEUE} has not admitted it"
            return f"{queue}: {said}" if said else queue
        return said

    def pod_explanation(self, message: str) -> str:
        """Return the message as it is."""
        return message
