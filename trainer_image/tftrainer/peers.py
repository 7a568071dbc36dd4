"""Asks a peer whether it is there. Nothing here imports TensorFlow, or remembers an answer.

A peer is there when its name resolves, its port takes a connection and its gRPC worker service
replies; a process that hangs passes only the first two.
"""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tftrainer.cluster import Member

if TYPE_CHECKING:
    import grpc

Check = Callable[[Member], str | None]
"""None if the peer is there, else why not. Called for one peer by one thread at a time."""

_ANSWER_SECONDS = 2.0
_STATUS_METHOD = "/tensorflow.WorkerService/GetStatus"
# Otherwise a new connection to an address would share the back-off of the one that failed.
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


def connects(member: Member) -> str | None:
    """None if the port takes a connection, else why not."""
    try:
        with socket.create_connection((member.host, member.port), timeout=_ANSWER_SECONDS):
            return None
    except socket.gaierror:
        return "its name does not resolve"
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return (error.strerror or str(error)).lower()


class Answers:
    """Asks TensorFlow's worker service, over one connection for as long as it answers."""

    def __init__(self) -> None:
        self._channels: dict[Member, grpc.Channel] = {}

    def __call__(self, member: Member) -> str | None:
        """None if the service answers, else why not."""
        # Imported here: workers and ps never ask, and it costs them memory.
        import grpc  # noqa: PLC0415

        channel = self._channels.pop(member, None)
        if channel is None:
            if reason := connects(member):
                return reason
            channel = grpc.insecure_channel(member.address, options=_OWN_CONNECTION)
        status = channel.unary_unary(
            _STATUS_METHOD, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            status(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            # The next connection is a new one: this one would keep the address that it resolved.
            channel.close()
            code = error.code().name.lower()
            return connects(member) or f"connects, but does not serve ({code})"
        self._channels[member] = channel
        return None
