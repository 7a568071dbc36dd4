"""What the pass needs from the world it runs in: calls, reports of pods, somewhere for events."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core.events import Event
from tftraining_operator.core.progress import Report
from tftraining_operator.reconcile.store import JobKey, Kind

_Object = dict[str, Any]


class Api(Protocol):
    """The calls that a pass makes; see controller.kubernetes_api and cli.local.api."""

    async def get(self, kind: Kind, namespace: str, name: str) -> _Object: ...  # noqa: D102
    async def create(  # noqa: D102
        self, kind: Kind, body: _Object, *, dry_run: bool = False
    ) -> _Object: ...
    async def replace(self, kind: Kind, body: _Object) -> _Object: ...  # noqa: D102
    async def delete(  # noqa: D102
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> _Object: ...
    async def delete_servers(self, namespace: str, job: str, uid: str) -> None: ...  # noqa: D102
    async def patch_status(  # noqa: D102
        self, namespace: str, name: str, resource_version: str, patch: _Object
    ) -> _Object: ...
    async def patch_workload(  # noqa: D102
        self,
        namespace: str,
        name: str,
        resource_version: str,
        patch: _Object,
        *,
        subresource: str = "",
    ) -> _Object: ...
    async def read(self, path: str) -> _Object: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Target:
    """A running pod that serves its progress. Its address alone may become another pod's."""

    pod_uid: str
    url: str
    stall_timeout: float | None = None
    """For how long (s) no new step is news at once, as the job is restarted then."""


class ReportSource(Protocol):
    """Who keeps the reports of running pods; see controller.poller and cli.local.reports.

    It returns reports of the pods that are watched now, and of no other; `count` is that of the
    jobs that have any.
    """

    def watch(self, key: JobKey, targets: Mapping[Role, Target]) -> None: ...  # noqa: D102
    def forget(self, key: JobKey) -> None: ...  # noqa: D102
    def reports(self, key: JobKey) -> Mapping[Role, Report]: ...  # noqa: D102
    def count(self) -> int: ...  # noqa: D102


Record = Callable[[ObjectMeta, list[Event]], Awaitable[None]]
"""Makes events of a job known; must not fail because an event cannot be written."""

StatusObserver = Callable[[_Object, Status, Status], None]
"""Learns of each status that was written: the job as it was, its status before and after."""
