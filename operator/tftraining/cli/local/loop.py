"""Runs the operator's reconciler over one local job: when something changed, and when it asked.

The cluster's counterpart is controller.runtime with its work queue.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta

from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core.events import Event
from tftraining_operator.reconcile.errors import ApiError
from tftraining_operator.reconcile.protocols import ReportSource
from tftraining_operator.reconcile.reconciler import Reconciler
from tftraining_operator.reconcile.store import Store

from tftraining.cli.local.api import LocalApi
from tftraining.cli.local.commands import TRAINER_IMAGE

_RETRY = timedelta(seconds=1)


class ReconcileLoop:
    """The passes over one job, one at a time."""

    def __init__(
        self,
        api: LocalApi,
        store: Store,
        reports: ReportSource,
        show: Callable[[list[Event]], None],
        clock: Callable[[], datetime],
    ) -> None:
        async def record(_job: ObjectMeta, events: list[Event]) -> None:
            show(events)

        self._api = api
        self._store = store
        self._clock = clock
        self._runner = asyncio.Runner()
        self._due: datetime | None = clock()
        self._reconciler = Reconciler(
            api, store, reports, record, trainer_image=TRAINER_IMAGE, clock=clock
        )
        self.status = Status()
        """The job's status after the newest pass."""

    def step(self, *, changed: bool) -> None:
        """Do a pass if something changed or a pass is due. Raises TFTrainingError."""
        if not changed and not self.is_due:
            return
        try:
            seconds = self._runner.run(self._reconciler(self._api.key))
        except ApiError:
            self._due = self._clock() + _RETRY
            return
        self._due = None if seconds is None else self._clock() + timedelta(seconds=seconds)
        job = self._store.job(self._api.key) or {}
        self.status = Status.model_validate_json(json.dumps(job.get("status") or {}))

    @property
    def is_due(self) -> bool:
        """Whether a pass is due though nothing has changed."""
        return self._due is not None and self._due <= self._clock()

    def close(self) -> None:
        """Close the event loop."""
        self._runner.close()
