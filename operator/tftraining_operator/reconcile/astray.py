"""Mends the bucket of jobs whose status has another one than belongs to their name.

As after a backup of them was restored into another namespace, with their status. The shard whose
jobs they are does not select them, and would take them for deleted; the one that sees them writes
the right bucket, and nothing else. Called by the runtime, beside the passes.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tftraining_operator.core.naming import bucket
from tftraining_operator.reconcile.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
)
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.store import Kind, Store

_Object = dict[str, Any]


async def mend_buckets(api: Api, store: Store, works_in: Callable[[str], Awaitable[bool]]) -> None:
    """Write the right bucket into each, in namespaces that are worked in. Raises ApiError.

    ForbiddenError is raised after all others were tried: it may be of one namespace.
    """
    refused: list[tuple[_Object, ForbiddenError]] = []
    try:
        while (raw := store.take_astray()) is not None:
            try:
                await _mend(api, raw, works_in)
            except ForbiddenError as error:
                refused.append((raw, error))
            except ApiError:
                store.put(Kind.JOB, raw)
                raise
    finally:
        for raw, _ in refused:
            store.put(Kind.JOB, raw)
    if refused:
        raise refused[0][1]


async def _mend(api: Api, raw: _Object, works_in: Callable[[str], Awaitable[bool]]) -> None:
    metadata = raw["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    # If it has changed, a watch tells what became of it.
    with suppress(ConflictError, NotFoundError):
        if await works_in(namespace):
            patch = {"bucket": bucket(namespace, name)}
            await api.patch_status(namespace, name, metadata["resourceVersion"], patch)
