"""`AsyncTFTrainingClient`: the client for programs with an event loop.

Its methods are those of TFTrainingClient, to be awaited. The calls are made by threads, so the loop
runs on; what is waited for between the calls is waited for in the loop, and can be cancelled.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from os import PathLike
from pathlib import Path
from typing import Any

from tftraining import following, log_reader
from tftraining.client import Goal, TFTrainingClient, checked, progress_view
from tftraining.following import Wait
from tftraining.job import TrainingJob
from tftraining.metrics import Records
from tftraining.view.log_lines import Line

_Object = dict[str, Any]
_Jobs = list[TrainingJob]


class AsyncTFTrainingClient:
    """The jobs of one namespace of a cluster; see TFTrainingClient for the arguments."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - TFTrainingClient's
        """Connect as TFTrainingClient does."""
        self._client = TFTrainingClient(*args, **options)

    @property
    def namespace(self) -> str:
        """The namespace of all jobs of this client."""
        return self._client.namespace

    async def train(self, *args: Any, **options: Any) -> TrainingJob:  # noqa: ANN401 - as above
        """Start a job from Python code, without building an image."""
        return await asyncio.to_thread(self._client.train, *args, **options)

    async def submit(
        self, manifest: str | PathLike[str] | _Object, *, replace: bool = False
    ) -> TrainingJob:
        """Start a job from a manifest: a YAML file, or the object as a dict."""
        return await asyncio.to_thread(self._client.submit, manifest, replace=replace)

    async def list(self, *, selector: str = "", all_namespaces: bool = False) -> _Jobs:
        """Return the jobs of the namespace, or of all."""
        return await asyncio.to_thread(
            self._client.list, selector=selector, all_namespaces=all_namespaces
        )

    async def get(self, name: str) -> TrainingJob:
        """Return a job with its pods."""
        return await asyncio.to_thread(self._client.get, name)

    async def describe(self, name: str) -> str:
        """Return what a job does, and why it does not run or failed."""
        return await asyncio.to_thread(self._client.describe, name)

    async def wait(
        self,
        name: str,
        goal: Goal = "finished",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - that of the job
        progress: bool | None = None,
    ) -> TrainingJob:
        """Wait until a job has finished, or until it runs, is ready or suspended."""
        with progress_view(progress) as view:
            return checked(await self.follow(name, goal, view.show, timeout=timeout))

    async def follow(
        self,
        name: str,
        goal: str,
        show: Callable[[TrainingJob], None],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - that of the job
    ) -> TrainingJob:
        """Call `show` at intervals until a job is where it is waited for; return its last state."""
        wait = Wait(self._client.cluster, name, following.goal_of(goal), timeout)
        while True:
            found = await asyncio.to_thread(wait.look)
            if found is not None:
                show(found)
            if wait.is_over(found) and found is not None:
                return found
            await asyncio.sleep(wait.pause)

    async def logs(self, name: str, **options: Any) -> AsyncIterator[Line]:  # noqa: ANN401
        """Yield the logs of all pods of a job, ordered by time."""
        lines = await asyncio.to_thread(log_reader.opened, self._client.cluster, name, **options)
        if not isinstance(lines, log_reader.Follower):
            for line in lines:
                yield line
            return
        try:
            while True:
                await asyncio.sleep(log_reader.BATCH_SECONDS)
                batch = await asyncio.to_thread(lines.turn)
                if batch is None:
                    return
                for line in batch:
                    yield line
        finally:
            lines.close()

    async def metrics(self, name: str) -> Records:
        """Return the newest values of a job: of training, evaluation and the exported model."""
        return await asyncio.to_thread(self._client.metrics, name)

    async def get_model(
        self, name: str, to: str | PathLike[str] | None = None, *, best: bool = False
    ) -> Path:
        """Copy the exported model of a job here; return its folder.

        Once begun it is finished, also if the task that awaits it is cancelled.
        """
        return await asyncio.to_thread(self._client.get_model, name, to, best=best)

    async def scale(self, name: str, workers: int) -> str:
        """Change the number of workers while the job runs; return what was done."""
        return await asyncio.to_thread(self._client.scale, name, workers)

    async def suspend(self, name: str) -> str:
        """Stop a job; return what was done."""
        return await asyncio.to_thread(self._client.suspend, name)

    async def resume(self, name: str) -> str:
        """Continue a suspended job; return what was done."""
        return await asyncio.to_thread(self._client.resume, name)

    async def restart(self, name: str) -> str:
        """Restart the training from the newest checkpoint; return what was done."""
        return await asyncio.to_thread(self._client.restart, name)

    async def delete(self, name: str, *, wait: bool = False) -> str:
        """Delete a job with its pods; return what was done."""
        return await asyncio.to_thread(self._client.delete, name, wait=wait)
