"""Mends the bucket of jobs whose status has another one than belongs to their name.

As after a backup of them was restored into another namespace, with their status. The shard whose
jobs they are does not select them, and would take them for deleted; the one that sees them writes
the right bucket, and nothing else. Called by the runtime, beside the passes.
"""

from collections.abc import Awaitable, Callable

from tftraining_operator.core.naming import bucket
from tftraining_operator.reconcile.errors import ApiError, ConflictError, NotFoundError
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.store import Kind, Store


async def mend_buckets(api: Api, store: Store, works_in: Callable[[str], Awaitable[bool]]) -> None:
    """Write the right bucket into each, in namespaces that are worked in. Raises ApiError."""
    while (raw := store.take_astray()) is not None:
        metadata = raw["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        try:
            if await works_in(namespace):
                patch = {"bucket": bucket(namespace, name)}
                await api.patch_status(namespace, name, metadata["resourceVersion"], patch)
        except (ConflictError, NotFoundError):
            continue  # a watch tells what became of it
        except ApiError:
            store.put(Kind.JOB, raw)
            raise
