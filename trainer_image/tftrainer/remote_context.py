"""The contexts that a chief has in its servers, which hold all its variables.

TensorFlow has no public call for either of this: how long a server keeps the context of a chief
that it does not hear of (600 s by default, so that a few restarts of the chief fill the memory of
its ps), and the closing of a context before that. Where a version of TensorFlow has other private
names, its default stays, and the log says so.
"""

import logging
import struct
from collections.abc import Iterable

import grpc

from tftrainer.cluster import Member

_LOG = logging.getLogger(__name__)
_CLOSE_METHOD = "/tensorflow.eager.EagerService/CloseContext"
_CLOSE_SECONDS = 2.0
# A server refuses to close for a view of the cluster that is older than its own.
_ANY_VIEW = 2**31


def set_keep_alive(seconds: float) -> None:
    """Set how long servers keep the context of a chief that is silent; before it connects."""
    whole = max(1, round(seconds))
    try:
        from tensorflow.python.eager import context  # noqa: PLC0415 -- may be elsewhere one day

        # Bound when TensorFlow was imported.
        default = (context._KEEP_ALIVE_SECS,)  # noqa: SLF001
        methods = (context.Context.set_server_def, context.Context.update_server_def)
    except (ImportError, AttributeError) as error:
        _LOG.warning("servers keep the variables of a lost chief for TensorFlow's 600 s: %s", error)
        return
    context._KEEP_ALIVE_SECS = whole  # noqa: SLF001
    for method in methods:
        if method.__defaults__ == default:
            method.__defaults__ = (whole,)


def own() -> int | None:
    """Return what the servers know this process's contexts by; after it has connected."""
    try:
        from tensorflow.python import pywrap_tfe  # noqa: PLC0415 -- may be elsewhere one day
        from tensorflow.python.eager import context  # noqa: PLC0415

        return int(pywrap_tfe.TFE_GetContextId(context.context()._handle))  # noqa: SLF001
    except (ImportError, AttributeError) as error:
        _LOG.warning("servers cannot be told which variables are of no use any more: %s", error)
        return None


def close(servers: Iterable[Member], identity: int | None) -> None:
    """Have the servers drop a context, in 2 s at most.

    Who does not answer, or does not know it, is no matter: a context that nobody uses goes away.
    """
    if identity is None:
        return
    request = _close_request(identity)
    calls = [
        grpc.insecure_channel(member.address).unary_unary(
            _CLOSE_METHOD, request_serializer=bytes, response_deserializer=bytes
        )
        for member in servers
    ]
    for told in [call.future(request, timeout=_CLOSE_SECONDS) for call in calls]:
        if error := told.exception():
            _LOG.debug("a context was not closed: %s", error)


def _close_request(identity: int) -> bytes:
    """Encode tensorflow.eager.CloseContextRequest: context_id and context_view_id, both fixed64."""
    return b"\x09" + struct.pack("<Q", identity) + b"\x11" + struct.pack("<Q", _ANY_VIEW)
