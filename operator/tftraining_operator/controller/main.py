"""One operator process: it answers probes, waits for leadership, and then runs the operator."""

import asyncio
import logging
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from tftraining_operator.controller import handlers
from tftraining_operator.controller.batching import BatchingSelector
from tftraining_operator.controller.health import served
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.controller.leader import Alone, Candidate, Leadership
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.metrics_server import exposed
from tftraining_operator.controller.runtime import Runtime
from tftraining_operator.controller.settings import Settings, SettingsError
from tftraining_operator.controller.shard_lease import ShardLease
from tftraining_operator.controller.shards import Shards
from tftraining_operator.controller.stopping import unless
from tftraining_operator.core.naming import lease_name

if TYPE_CHECKING:
    from tftraining_operator.controller.tracing import Tracing

logger = logging.getLogger(__name__)

LOST = 75
"""Exit code of a process that lost leadership: try again (EX_TEMPFAIL of sysexits.h)."""


async def operate(settings: Settings, selector: BatchingSelector) -> None:
    """Stand by, then run until asked to stop; exits the process if leadership is lost.

    `selector` is the event loop's. Raises SettingsError.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = Metrics()
    async with (
        _tracing(settings) as tracing,
        exposed(settings.metrics_port, metrics),
        _leadership(settings, metrics) as leadership,
    ):
        metrics.read_leadership(leadership.seconds_left)
        runtime = Runtime(settings, leadership.seconds_left, metrics, tracing)
        selector.moment = runtime.moment
        if isinstance(leadership, Shards):
            leadership.serve(runtime)
            metrics.read_shards(settings.shards, leadership.holds)

        def unready() -> str | None:
            return runtime.unready() if leadership.seconds_left() > 0 else leadership.problem()

        async with served(settings.health, alive=runtime.health, ready=unready):
            if await unless(stop, leadership.acquire()):
                await _lead(settings, leadership, runtime, stop)


def _tracing(settings: Settings) -> AbstractAsyncContextManager["Tracing | None"]:
    if not settings.traces_endpoint:
        return nullcontext()
    try:
        from tftraining_operator.controller.tracing import tracing  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SettingsError(
            f"TFTRAINING_TRACES_ENDPOINT is set, but {error.name} is not installed: "
            "pip install 'tftraining[operator,traces]'"
        ) from error
    return tracing(settings.traces_endpoint)


@asynccontextmanager
async def _leadership(settings: Settings, metrics: Metrics) -> AsyncIterator[Leadership]:
    if not settings.lease_namespace:
        yield Alone()
        return
    # A connection of its own: a renewal must not wait behind the calls of passes.
    api = await KubernetesApi.connect(observe=metrics.saw_call)
    try:
        leadership = _elected(settings, api)
        try:
            yield leadership
        finally:
            await leadership.release()
    finally:
        await api.close()


def _elected(settings: Settings, api: KubernetesApi) -> Candidate | Shards:
    identity = settings.lease_identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
    common: dict[str, Any] = {
        "namespace": settings.lease_namespace,
        "identity": identity,
        "seconds": settings.lease_seconds,
    }
    if settings.shards == 1:
        return Candidate(api, name=settings.lease_name, **common)
    names = [lease_name(settings.lease_name, shard) for shard in range(settings.shards)]
    leases = [ShardLease(api, name=name, **common) for name in names]
    return Shards(leases, identity=identity, seconds=settings.lease_seconds)


async def _lead(
    settings: Settings, leadership: Leadership, runtime: Runtime, stop: asyncio.Event
) -> None:
    # Made before kopf begins: at its end it waits for every task that was made later.
    keeping = asyncio.create_task(leadership.keep())
    stopping = asyncio.create_task(stop.wait())
    restored = asyncio.create_task(runtime.restored())
    working = asyncio.create_task(handlers.run(settings, runtime))
    running = {working, keeping, stopping, restored}
    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    if keeping.done() or restored.done():
        if keeping.done():
            logger.critical("lost leadership: %s", keeping.exception())
        else:
            logger.critical("etcd was restored: a new process lists and watches everything anew")
        # Nothing that this process still does can be right, and to stop kopf may take seconds.
        os._exit(LOST)
    try:
        if stopping.done():  # asked in the moment before kopf took the signals for itself
            working.cancel()
            await asyncio.wait({working})
            await runtime.stop()
        else:
            await working
    finally:
        for task in (keeping, stopping, restored):
            task.cancel()
        await asyncio.wait({keeping, stopping, restored})
