"""The coscheduling plugin of scheduler-plugins: PodGroup of scheduling.x-k8s.io/v1alpha1.

Only the spec is its own: the status is written by a controller that may be absent and mixes groups
of equal names, so it is not read. Why a gang waits, its pods say.
"""

import re
from decimal import Decimal
from typing import Any

from tftraining_operator.core.resources import quantity
from tftraining_operator.core.schedulers.scheduler import Carried, Group, GroupApi

_Object = dict[str, Any]

_LABEL = "scheduling.x-k8s.io/pod-group"
_SCHEDULER = "scheduler-plugins-scheduler"
"""Its name as its own chart installs it; a template's schedulerName says another."""

_ONLY_OTHERS = re.compile(
    r"optimistic rejection in PostFilter|rejection in Unreserve|rejected due to timeout"
    r"|cannot find enough sibling pods|PodGroup not found"
)
"""What is said of a pod that has room itself, or was not tried."""
_GAP = re.compile(r"resource gap: map\[(.*?)\]")
_QUANTITY = re.compile(r"(\S+?):\{\{(-?\d{1,19}) (-?\d{1,2})\}")
"""A quantity as Go prints its fields: value and power of ten first."""
_VERDICT = re.compile(r",? *PodGroup \S+ gets rejected due to Pod \S+ is unschedulable[^.]*\.?")
"""What is added for all; it names whichever pod was tried last."""


class Coscheduling:
    """A second kube-scheduler with the plugin Coscheduling."""

    api = GroupApi(
        group="scheduling.x-k8s.io",
        versions=("v1alpha1",),
        needs="the CRD of scheduler-plugins and its scheduler",
        value="scheduling.podGroup",
    )
    groups_later_pods = False

    def group_spec(self, group: Group) -> _Object:
        """Return the spec of a PodGroup."""
        spec: _Object = {"minMember": group.members}
        # Without them, 0.33.5 tries a gang that finds no room over a hundred times a second.
        if group.requests:
            spec["minResources"] = dict(group.requests)
        return spec

    def member(self, group: str) -> Carried:
        """Return what a pod of the gang carries."""
        return Carried(labels={_LABEL: group}, scheduler_name=_SCHEDULER)

    def single(self, group: str | None) -> Carried:  # noqa: ARG002 - see groups_later_pods
        """Return the scheduler alone: two schedulers would not know of each other's choices."""
        return Carried(scheduler_name=_SCHEDULER)

    def explanation(self, group: _Object) -> str:  # noqa: ARG002 - see the module's docstring
        """Return nothing."""
        return ""

    def pod_explanation(self, message: str) -> str:
        """Return what a pod lacks, or all of them together."""
        if _ONLY_OTHERS.search(message):
            return ""
        gap = _GAP.search(message)
        if gap and (lacking := _QUANTITY.findall(gap[1])):
            more = ", ".join(
                f"{quantity(Decimal(value).scaleb(int(power)))} more {name}"
                for name, value, power in lacking
            )
            return f"not enough is left on all nodes together: {more} needed"
        return _VERDICT.sub("", message)
