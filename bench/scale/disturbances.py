"""Lets pods fail and trainings end, and measures how soon the operator has acted on it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tftraining_operator.api.keys import CONTAINER

from bench.scale.client import AT_ONCE, Client
from bench.scale.contenders import IMAGE, job_name
from bench.scale.tables import Table, all_of, created_since, none_of

PER_SECOND = 5.0
_MOST = 200
"""Of each disturbance, which tell of a hundredth; and so many end at once."""
_KILLED = 137


@dataclass(frozen=True, slots=True)
class End:
    """A job that has Succeeded."""

    job: str
    chief_exit: str
    """When its chief completed, as the audit log writes times."""
    seconds: float
    """From then until it had Succeeded."""


def chosen(jobs: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the jobs of which a worker fails, and of those that end.

    They are others if there is more than one, so that it can be told what the end of a job costs.
    """
    failing, ending = range(0, jobs, 2)[:_MOST], range(1, jobs, 2)[:_MOST]
    return list(failing), list(ending or failing)


async def failures(client: Client, pods_path: str, pods: Table, jobs: Sequence[int]) -> list[float]:
    """Let a worker of each job be killed; return after how long (s) each was created anew."""

    async def fail(name: str) -> None:
        await client.patch_status(f"{pods_path}/{name}", _ended("Failed", _KILLED))

    names = [f"{job_name(number)}-worker-0" for number in jobs]
    moments = await _one_by_one(names, fail)
    await pods.until(created_since(moments, f"{len(jobs)} replacements of failed workers"))
    return [pods.appeared[name] - moment for name, moment in moments.items()]


async def ends(
    client: Client, pods_path: str, pods: Table, states: Table, jobs: Sequence[int]
) -> list[End]:
    """Let evaluators and then chiefs complete; return what became of the jobs."""
    names = {job_name(number): f"{job_name(number)}-chief-0" for number in jobs}
    await _complete(client, pods_path, pods, [f"{name}-evaluator-0" for name in names])

    async def succeed(name: str) -> None:
        await client.patch_status(f"{pods_path}/{name}", _ended("Succeeded", 0))

    moments = await _one_by_one(list(names.values()), succeed)
    await states.until(all_of(names, f"{len(jobs)} jobs Succeeded", ("Succeeded",)))
    return [
        End(name, _clock_time(moments[chief]), states.became[name] - moments[chief])
        for name, chief in names.items()
    ]


async def all_end(
    client: Client, pods_path: str, pods: Table, states: Table, jobs: Sequence[int]
) -> None:
    """Let jobs end, some at once: thousands would leave the API server no time for anything."""
    for first in range(0, len(jobs), _MOST):
        names = [job_name(number) for number in jobs[first : first + _MOST]]
        for role in ("evaluator", "chief"):
            await _complete(client, pods_path, pods, [f"{name}-{role}-0" for name in names])
        await states.until(all_of(names, f"{len(names)} jobs Succeeded", ("Succeeded",)))


async def absences(client: Client, pods_path: str, pods: Table, jobs: Sequence[int]) -> list[str]:
    """Delete a worker of each job, while no operator runs; return their names."""
    names = [f"{job_name(number)}-worker-1" for number in jobs]
    await client.delete(*(f"{pods_path}/{name}" for name in names), grace=0)
    await pods.until(none_of(names, f"deletion of {len(names)} workers"))
    return names


async def _complete(client: Client, pods_path: str, pods: Table, names: Sequence[str]) -> None:
    left = iter(names)

    async def succeed() -> None:
        for name in left:
            await client.patch_status(f"{pods_path}/{name}", _ended("Succeeded", 0))

    await asyncio.gather(*(succeed() for _ in range(AT_ONCE)))
    await pods.until(all_of(names, "completed pods", ("0/1", "Completed")))


async def _one_by_one(
    names: Sequence[str], act: Callable[[str], Coroutine[Any, Any, None]]
) -> dict[str, float]:
    """Act on PER_SECOND objects a second; return when (perf_counter) each request was sent."""
    moments: dict[str, float] = {}
    for name in names:
        moments[name] = time.perf_counter()
        await act(name)
        await asyncio.sleep(max(0.0, moments[name] + 1 / PER_SECOND - time.perf_counter()))
    return moments


def _clock_time(moment: float) -> str:
    ago = timedelta(seconds=time.perf_counter() - moment)
    return (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _ended(phase: str, exit_code: int) -> dict[str, Any]:
    """Return the status of a pod whose container has just ended."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    terminated = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": now,
        "finishedAt": now,
    }
    return {
        "phase": phase,
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "PodCompleted"},
            {"type": "ContainersReady", "status": "False", "reason": "PodCompleted"},
            {"type": "PodScheduled", "status": "True"},
        ],
        "containerStatuses": [
            {
                "name": CONTAINER,
                "image": IMAGE,
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
        ],
    }
