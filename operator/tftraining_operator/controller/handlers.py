"""kopf's triggers: start and stop. The only module that imports kopf; see watch for the objects."""

import socket
from typing import Any

import kopf

from tftraining_operator.controller import garbage
from tftraining_operator.controller.runtime import Runtime
from tftraining_operator.controller.settings import Settings


def registry(runtime: Runtime) -> kopf.OperatorRegistry:
    """Return the triggers of one operator process."""
    found = kopf.OperatorRegistry()

    # Who cannot start must not lead: kopf would try again after a minute, and hold the lease.
    @kopf.on.startup(registry=found, errors=kopf.ErrorsMode.PERMANENT)
    async def start(settings: kopf.OperatorSettings, **_: object) -> None:
        settings.posting.enabled = False  # our own events, after the status that they tell of
        settings.scanning.disabled = True  # no rights on CRDs and namespaces
        with garbage.kept():
            await runtime.start()

    # It sends no request, but ends without credentials.
    @kopf.on.login(registry=found)
    async def login(
        logger: kopf.Logger, settings: kopf.OperatorSettings, **_: object
    ) -> kopf.ConnectionInfo | None:
        account = kopf.login_with_service_account(logger=logger, settings=settings)
        return account or kopf.login_with_kubeconfig(logger=logger, settings=settings)

    @kopf.on.cleanup(registry=found)
    async def stop(**_: object) -> None:
        await runtime.stop()

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
