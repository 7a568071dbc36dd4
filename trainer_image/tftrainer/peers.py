"""Waits until every peer answers, and says who does not.

TensorFlow's own wait has neither a limit nor a word. A peer answers when its name resolves, its
port takes a connection and its gRPC worker service replies; a process that hangs passes only the
first two. Nothing here imports TensorFlow.
"""

import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tftrainer.cluster import Member
from tftrainer.errors import PeersUnavailableError
from tftrainer.supervisor import Run

_LOG = logging.getLogger(__name__)
_ANSWER_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_LOG_SECONDS = 10.0
_THREADS = 32
_STATUS_METHOD = "/tensorflow.WorkerService/GetStatus"

Check = Callable[[Member], str | None]


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


def answers(member: Member) -> str | None:
    """None if TensorFlow's worker service answers, else why not."""
    # Imported here: workers and ps never ask, and it costs them memory.
    import grpc  # noqa: PLC0415

    if reason := connects(member):
        return reason
    # A new channel each time: an old one would keep the address it has resolved once.
    with grpc.insecure_channel(member.address) as channel:
        status = channel.unary_unary(
            _STATUS_METHOD, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            status(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            return f"connects, but does not serve ({error.code().name.lower()})"
    return None


def wait(members: Iterable[Member], run: Run, *, timeout: float, check: Check = answers) -> None:
    """Return when all answer; raises PeersUnavailableError after the timeout."""
    missing: dict[Member, str] = dict.fromkeys(members, "not asked yet")
    run.progress.update(waiting_for=tuple(str(member.task) for member in missing))
    start = time.monotonic()
    logged_at, logged = start, frozenset(missing)
    with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="peers") as pool:
        while missing:
            run.raise_if_stopped()
            reasons = zip(missing, pool.map(check, missing), strict=True)
            missing = {member: reason for member, reason in reasons if reason}
            now = time.monotonic()
            run.progress.update(waiting_for=tuple(str(member.task) for member in missing))
            if missing and now - start > timeout:
                raise PeersUnavailableError(
                    f"no answer within {timeout:.0f} s (--peer-timeout) from {_names(missing)}."
                )
            if missing and (now - logged_at > _LOG_SECONDS or frozenset(missing) != logged):
                _LOG.info("waiting for %s (%.0f s)", _names(missing), now - start)
                logged_at, logged = now, frozenset(missing)
            if missing:
                run.stop.wait(_RETRY_SECONDS)
    _LOG.info("all peers answer after %.0f s", time.monotonic() - start)


def _names(missing: Mapping[Member, str]) -> str:
    return ", ".join(f"{member.task} ({reason})" for member, reason in missing.items())
