"""Probes a peer once: does it answer, and if not, why. Keeps no results: peer_watch does.

A peer answers if its name resolves, its port accepts a connection and its gRPC worker service
replies; a process that hangs passes only the first two. Does not import TensorFlow.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tftrainer.config.cluster import Member
from tftrainer.runtime.progress import Cause

if TYPE_CHECKING:
    import grpc


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a probe failed."""

    cause: Cause
    reason: str
    """For people."""
    address: str | None = None
    """IP address that was asked; None where the name did not resolve."""


Probe = Callable[[Member], Failure | None]
"""Returns None if the peer answers. Called for one peer by one thread at a time."""

_NOT_RESOLVED = Failure(Cause.NOT_RESOLVED, "its name does not resolve")
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
        return _NOT_RESOLVED
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
    return _at(member, str(found[0][4][0]))


def facing(own: Member, peer: Member) -> Member:
    """Return this process's own member at the IP address from which it reaches a peer.

    As given if the peer cannot be resolved.
    """
    if (at := resolve(peer)) is None:
        return own
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    # Connecting a datagram socket sends nothing; it only looks for the way.
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((at.host, at.port))
        return _at(own, str(way.getsockname()[0]))


def _at(member: Member, ip: str) -> Member:
    return replace(member, address=f"{f'[{ip}]' if ':' in ip else ip}:{member.port}")


class StatusProbe:
    """Calls TensorFlow's worker service, over one connection for as long as it answers.

    A failure says of which address it is: a name server that is behind still has that of a pod
    that is gone.
    """

    def __init__(self) -> None:
        self._channels: dict[Member, tuple[grpc.Channel, Member]] = {}
        self._answered: dict[Member, Member] = {}

    def __call__(self, member: Member) -> Failure | None:
        """Return None if the service answers."""
        # Imported here: workers and ps never probe, and it costs them memory.
        import grpc  # noqa: PLC0415

        channel, at = self._channels.pop(member, (None, None))
        if channel is None or at is None:
            if (at := resolve(member)) is None:
                return _NOT_RESOLVED
            if failure := connect(at):
                return replace(failure, address=at.host)
            channel = grpc.insecure_channel(at.address, options=_OWN_CONNECTION)
        status = channel.unary_unary(
            _STATUS_METHOD, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            status(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            # The next connection is to the address that the name has then.
            channel.close()
            timed_out = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            failure = connect(at) or Failure(
                Cause.TIMED_OUT if timed_out else Cause.FAILED,
                f"accepts connections, but does not answer ({error.code().name.lower()})",
            )
            return replace(failure, address=at.host)
        self._channels[member] = channel, at
        self._answered[member] = at
        return None

    def where_it_answered(self, member: Member) -> Member:
        """Return the member at the IP address where it answered last; as given if it never did."""
        return self._answered.get(member, member)
