"""Asks running chiefs and evaluators how far they are. Reads only, and never fails a pass."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime

import aiohttp

from tftraining_operator.api.keys import Role
from tftraining_operator.core.progress import Report, parse_report
from tftraining_operator.reconcile.store import JobKey

logger = logging.getLogger(__name__)

_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
_LARGEST = 64 * 1024
_AT_ONCE = 64


class ProgressPoller:
    """Keeps the newest report of each job's chief and evaluator."""

    def __init__(
        self, changed: Callable[[JobKey], None], interval: float, clock: Callable[[], datetime]
    ) -> None:
        self._changed = changed
        self._interval = interval
        self._clock = clock
        self._targets: dict[JobKey, Mapping[Role, str]] = {}
        self._reports: dict[JobKey, dict[Role, Report]] = {}

    def watch(self, key: JobKey, targets: Mapping[Role, str]) -> None:
        """Poll these URLs for a job from now on; what an earlier pod said is forgotten."""
        if not targets:
            self.forget(key)
            return
        before = self._targets.get(key, {})
        if before == targets:
            return
        kept = self._reports.setdefault(key, {})
        for role in Role:
            if before.get(role) != targets.get(role):
                kept.pop(role, None)
        self._targets[key] = dict(targets)

    def forget(self, key: JobKey) -> None:
        """Poll a job no longer."""
        self._targets.pop(key, None)
        self._reports.pop(key, None)

    def reports(self, key: JobKey) -> Mapping[Role, Report]:
        """Return the newest reports of a job."""
        return self._reports.get(key, {})

    async def run(self) -> None:
        """Poll until cancelled."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=False) as session:
            limit = asyncio.Semaphore(_AT_ONCE)
            while True:
                await asyncio.sleep(self._interval)
                targets = [
                    (key, role, url)
                    for key, urls in self._targets.items()
                    for role, url in urls.items()
                ]
                await asyncio.gather(*(self._poll(session, limit, *target) for target in targets))

    async def _poll(
        self,
        session: aiohttp.ClientSession,
        limit: asyncio.Semaphore,
        key: JobKey,
        role: Role,
        url: str,
    ) -> None:
        try:
            async with limit, session.get(url, allow_redirects=False) as response:
                text = b""
                async for chunk in response.content.iter_chunked(_LARGEST):
                    text += chunk
                    if len(text) > _LARGEST:
                        return
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.debug("%s: no report from %s: %s", key, url, error)
            return
        report = parse_report(text, self._clock())
        if report is None or self._targets.get(key, {}).get(role) != url:
            return
        reports = self._reports.setdefault(key, {})
        before = reports.get(role)
        reports[role] = report
        if before is None or not before.says_the_same(report):
            self._changed(key)
