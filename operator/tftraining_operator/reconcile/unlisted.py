"""Reads again what no watch tells of: a pod that lost our label though a job controls it.

The pod trains on; without this its end would be noticed by nobody, and its absence from the watch
would look like its end. Called by the runtime, beside the passes.
"""

from collections.abc import Callable

from tftraining_operator.reconcile.errors import ForbiddenError, NotFoundError
from tftraining_operator.reconcile.protocols import Api
from tftraining_operator.reconcile.store import JobKey, Store


async def read_unlisted(
    api: Api,
    store: Store,
    look: Callable[[JobKey], None],
    is_forbidden: Callable[[str], bool] = lambda _namespace: False,
) -> None:
    """Bring the store up to date, and ask for a pass where something changed. Raises ApiError.

    ForbiddenError is raised after all others were tried: it may be of one namespace.
    """
    refusal: ForbiddenError | None = None
    for kind, key, raw in store.unlisted():
        if is_forbidden(key.namespace):
            continue
        name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
        try:
            found = await api.get(kind, key.namespace, name)
        except NotFoundError:
            found = None
        except ForbiddenError as error:
            refusal = error
            continue
        if found is None or found["metadata"]["uid"] != uid:
            store.forget(kind, key, name, uid)
            look(key)
        if found is not None and (changed := store.put(kind, found)) is not None:
            look(changed)
    if refusal is not None:
        raise refusal
