"""Probes a peer once: does it answer, and if not, why. Used by peer_watch; keeps no results.

A peer answers if its name resolves, its port accepts a connection and its gRPC worker service
replies; a process that hangs passes only the first two. Does not import TensorFlow.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tftrainer.cluster import Member
from tftrainer.progress import Cause

if TYPE_CHECKING:
    import grpc


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a probe failed."""

    cause: Cause
    reason: str
    """For people."""


Probe = Callable[[Member], Failure | None]
"""Returns None if the peer answers. Called for one peer by one thread at a time."""

_ANSWER_SECONDS = 2.0
_STATUS_METHOD = "/tensorflow.WorkerService/GetStatus"
# Otherwise a new connection to an address would share the back-off of the one that failed.
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


def connect(member: Member) -> Failure | None:
    """Return None if the port accepts a connection."""
    try:
        with socket.create_connection((member.host, member.port), timeout=_ANSWER_SECONDS):
            return None
    except socket.gaierror:
        return Failure(Cause.NOT_RESOLVED, "its name does not resolve")
    except TimeoutError:
        return Failure(Cause.TIMED_OUT, "connection timed out")
    except ConnectionRefusedError:
        return Failure(Cause.REFUSED, "connection refused")
    except OSError as error:
        return Failure(Cause.FAILED, (error.strerror or str(error)).lower())


def resolve(member: Member) -> Member | None:
    """Return the member at the IP address that its name has now; None if it has none."""
    try:
        found = socket.getaddrinfo(member.host, member.port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return replace(member, address=f"{found[0][4][0]!s}:{member.port}")


class StatusProbe:
    """Calls TensorFlow's worker service, over one connection for as long as it answers."""

    def __init__(self) -> None:
        self._channels: dict[Member, grpc.Channel] = {}

    def __call__(self, member: Member) -> Failure | None:
        """Return None if the service answers."""
        # Imported here: workers and ps never probe, and it costs them memory.
        import grpc  # noqa: PLC0415

        channel = self._channels.pop(member, None)
        if channel is None:
            if failure := connect(member):
                return failure
            channel = grpc.insecure_channel(member.address, options=_OWN_CONNECTION)
        status = channel.unary_unary(
            _STATUS_METHOD, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            status(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            # The next connection is a new one: this one would keep the address that it resolved.
            channel.close()
            timed_out = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            return connect(member) or Failure(
                Cause.TIMED_OUT if timed_out else Cause.FAILED,
                f"accepts connections, but does not answer ({error.code().name.lower()})",
            )
        self._channels[member] = channel
        return None
