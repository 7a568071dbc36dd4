"""kopf's triggers: start, stop, and to look at a job again. The only module that imports kopf.

What jobs own is watched without it, by child_watch.
"""

import gc
import socket
from typing import Any
from urllib.request import getproxies

import kopf

from tftraining_operator.api import keys
from tftraining_operator.controller.kubernetes_api import PAGE
from tftraining_operator.controller.runtime import Runtime
from tftraining_operator.controller.settings import Settings
from tftraining_operator.reconcile.store import Kind

_GARBAGE_THRESHOLDS = (10_000, 20, 50)
"""Nearly all that is made here goes by its count of references, without a collection."""


def registry(runtime: Runtime) -> kopf.OperatorRegistry:
    """Return the triggers of one operator process."""
    found = kopf.OperatorRegistry()

    # Who cannot start must not lead: kopf would try again after a minute, and hold the lease.
    @kopf.on.startup(registry=found, errors=kopf.ErrorsMode.PERMANENT)
    async def start(settings: kopf.OperatorSettings, **_: object) -> None:
        _configure(settings)
        # What exists by then stays: looking through it for garbage would stop the loop.
        gc.disable()
        await runtime.start()
        gc.freeze()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)
        gc.enable()

    @kopf.on.login(registry=found)
    async def login(
        logger: kopf.Logger, settings: kopf.OperatorSettings, **_: object
    ) -> kopf.ConnectionInfo | None:
        account = kopf.login_with_service_account(logger=logger, settings=settings)
        return account or kopf.login_with_kubeconfig(logger=logger, settings=settings)

    @kopf.on.cleanup(registry=found)
    async def stop(**_: object) -> None:
        await runtime.stop()

    @kopf.on.event(keys.GROUP, keys.VERSION, keys.PLURAL, registry=found)
    async def job_changed(event: kopf.RawEvent, **_: object) -> None:
        runtime.see(Kind.JOB, event["object"], event["type"])

    return found


async def run(settings: Settings, runtime: Runtime) -> None:
    """Follow the cluster until a signal asks to stop: kopf takes SIGTERM and SIGINT for itself."""
    # kopf's default asks for the user's name, which a container's number need not have.
    identity: Any = socket.gethostname()
    await kopf.operator(
        identity=identity,
        registry=registry(runtime),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
    )


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.posting.enabled = False  # our own events, after the status that they tell of
    settings.scanning.disabled = True  # no rights on CRDs and namespaces
    settings.persistence.diffbase_storage = _NoMemory()
    settings.persistence.progress_storage = _NoProgress()
    # A task waits for each object's next event, and holds the last one: of thousands at the start.
    settings.queueing.idle_timeout = 0.1
    settings.watching.chunk_size = PAGE
    settings.networking.trust_env = bool(getproxies())
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 320  # a stream that went silent
    settings.watching.connect_timeout = 10
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30


class _NoMemory(kopf.DiffBaseStorage):
    """Remembers nothing of an object, as we handle no differences.

    kopf would copy each object it sees several times to find what has changed: half of its work.
    """

    def build(self, **_: object) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """Knows of no handlers that are to be continued: kopf would look for them in each object."""

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None

    def purge(self, **_: object) -> None:
        return None

    def touch(self, **_: object) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence
