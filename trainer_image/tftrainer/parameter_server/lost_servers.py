"""Decides whether an error means that a server was lost, rather than a mistake of the user's.

Called by the package's `train` for every error that ends it. A ps or worker that goes away while
the user's model() or dataset() runs raises inside the user's code, and one that goes away while a
checkpoint is saved, in what saves it. Storage that is away raises the same types of errors as a
server. So where the error itself does not name the server, every server is asked.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf

from tftrainer.config.cluster import Cluster, Member, Role
from tftrainer.errors import (
    PERHAPS_OF_A_LOSS,
    BadConfigurationError,
    OutageError,
    ParameterServerLostError,
    PeersUnavailableError,
    TrainerError,
    one_line,
)
from tftrainer.parameter_server.server_links import broken_link
from tftrainer.peering.peer_errors import (
    garbled_call,
    is_of_tensorflow,
    lost_peer_error,
    means_lost_peer,
)
from tftrainer.peering.peers import StatusProbe

_THREADS = 32
_REMOTE = re.compile(r"from remote target /job:(ps|worker)/")


def explain(error: BaseException, cluster: Cluster, *, building: bool) -> TrainerError | None:
    """Return the error to end with if a server was lost; None if the error is what it seems.

    `building` is true until training begins: from then on TensorFlow replaces workers by itself.
    """
    if isinstance(error, PERHAPS_OF_A_LOSS) and not is_of_tensorflow(error):
        return None
    if (garbled := garbled_call(error)) is not None:
        return PeersUnavailableError(
            "TensorFlow made a call that the server could not read, which no task can cause "
            f"({one_line(garbled)}). The chief must be restarted."
        )
    return _of_loss(error, cluster, building=building)


def _of_loss(error: BaseException, cluster: Cluster, *, building: bool) -> TrainerError | None:
    loss = lost_peer_error(error)
    if loss is not None and (named := _REMOTE.search(str(loss))):
        link = broken_link(loss, cluster)
        is_of_worker = named[1] == Role.WORKER and (building or link is not None)
        said = one_line(loss) if link is None else f"{link}: {one_line(loss)}"
        return _worker_lost(said) if is_of_worker else _ps_lost(said)
    for member, why in _unusable(cluster):
        if member.task.role is Role.PS:
            return _ps_lost(f"{member.name}: {why}")
        if loss is not None and building:
            return _worker_lost(f"{member.name}: {why}")
    # Something is unavailable, but no server of this cluster: it may be there at the next attempt.
    is_outage = loss is not None and isinstance(error, BadConfigurationError)
    return OutageError(str(error)) if is_outage else None


def _ps_lost(why: str) -> TrainerError:
    return ParameterServerLostError(
        f"a parameter server was lost, and the variables with it ({why}). "
        "Training resumes from the newest checkpoint when the chief starts again."
    )


def _worker_lost(why: str) -> TrainerError:
    return PeersUnavailableError(f"a worker was lost ({why}). The chief must be restarted.")


def _unusable(cluster: Cluster) -> Iterator[tuple[Member, str]]:
    """Ask every server; yield those that do not answer, or have lost what this chief put there."""
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        servers = sorted(cluster.peers, key=lambda member: member.task.role is not Role.PS)
        for member, failure in zip(servers, pool.map(StatusProbe(), servers), strict=True):
            if failure is not None:
                yield member, failure.reason
            elif error := _context_error(member):
                yield member, one_line(error)


def _context_error(member: Member) -> BaseException | None:
    """Return why this chief can run nothing on a server that answers, such as a restarted one."""
    try:
        with tf.device(member.task.device):
            tf.identity(tf.constant(0)).numpy()
    except tf.errors.OpError as error:
        return error if means_lost_peer(error) else None
    return None
