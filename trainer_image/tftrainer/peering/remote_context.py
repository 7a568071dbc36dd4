"""Manages the eager contexts that a chief has on its servers, which hold all its variables.

Called by parameter_server.chief. TensorFlow has no public interface to set how long a server keeps
the context of a chief that no longer responds (600 s by default, so that a few restarts of the
chief fill the memory of its ps), nor to close a context earlier. If the private names change in
another version of TensorFlow, its default applies and a warning is logged.
"""

import logging
import struct
from collections.abc import Iterable

import grpc

from tftrainer.config.cluster import Member

_LOG = logging.getLogger(__name__)
_CLOSE_METHOD = "/tensorflow.eager.EagerService/CloseContext"
_CLOSE_SECONDS = 2.0
# A server refuses to close for a view of the cluster that is older than its own.
_ANY_VIEW = 2**31


def set_keep_alive(seconds: float) -> None:
    """Set how long servers keep the context of a chief that stopped; call it before connecting."""
    whole = max(1, round(seconds))
    try:
        from tensorflow.python.eager import context  # noqa: PLC0415 -- may be elsewhere one day

        # Bound when TensorFlow was imported.
        default = (context._KEEP_ALIVE_SECS,)  # noqa: SLF001
        methods = (context.Context.set_server_def, context.Context.update_server_def)
    except (ImportError, AttributeError) as error:
        _LOG.warning(
            "--keep-alive-seconds has no effect, TensorFlow's 600 s apply: %s",
            error,
        )
        return
    context._KEEP_ALIVE_SECS = whole  # noqa: SLF001
    for method in methods:
        if method.__defaults__ == default:
            method.__defaults__ = (whole,)


def own() -> int | None:
    """Return the id of this process's context on its servers; call it after connecting."""
    try:
        from tensorflow.python import pywrap_tfe  # noqa: PLC0415 -- may be elsewhere one day
        from tensorflow.python.eager import context  # noqa: PLC0415

        return int(pywrap_tfe.TFE_GetContextId(context.context()._handle))  # noqa: SLF001
    except (ImportError, AttributeError) as error:
        _LOG.warning(
            "cannot close contexts on servers, they keep unused variables until they expire: %s",
            error,
        )
        return None


def close(servers: Iterable[Member], identity: int | None) -> None:
    """Close a context on the servers, within 2 s.

    Servers that do not answer or do not know it are ignored: an unused context expires.
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
    for reply in [call.future(request, timeout=_CLOSE_SECONDS) for call in calls]:
        if error := reply.exception():
            _LOG.debug("a context was not closed: %s", error)


def _close_request(identity: int) -> bytes:
    """Encode tensorflow.eager.CloseContextRequest: context_id and context_view_id, both fixed64."""
    return b"\x09" + struct.pack("<Q", identity) + b"\x11" + struct.pack("<Q", _ANY_VIEW)
