"""A worker or ps of a ParameterServer job: a TensorFlow server that runs what the chief sends.

Called by __main__. TensorFlow is given the server's own address only, so that the cluster can
change without it, and it never ends by itself. A ps that gets SIGTERM goes on serving while the
chief is running, for a few seconds: when a whole job or node is shut down, the chief reads the
variables to save them.
"""

import logging
import signal
import threading
import time
from collections.abc import Iterable

from tftrainer import peers, server_library
from tftrainer.cluster import Cluster, Member, Role
from tftrainer.environment import Environment
from tftrainer.errors import TrainerError

_LOG = logging.getLogger(__name__)
# With the default of one thread per visible core, the first steps of all workers can deadlock.
_LEAST_THREADS = 32
CHIEF_SAVES_SECONDS = 5.0
"""How long a ps serves after SIGTERM at most, while the chief is running."""
_POLL_SECONDS = 0.1


def serve(environment: Environment, cluster: Cluster) -> None:
    """Serve until SIGTERM or SIGINT, and return when the process may end."""
    began = time.monotonic()
    library = server_library.load()
    _LOG.info("imported TensorFlow's server in %.1f s", time.monotonic() - began)
    member = cluster.own
    threads = max(_LEAST_THREADS, environment.workers + 2)
    try:
        # It listens on this port on all interfaces, whatever host the address names. The name
        # keeps it alive: a server that is collected stops.
        server = library.Server(
            library.ClusterSpec({str(member.task.role): {member.task.index: member.address}}),
            job_name=str(member.task.role),
            task_index=member.task.index,
            protocol="grpc",
            config=library.ConfigProto(inter_op_parallelism_threads=threads),
        )
    except library.OpError as error:
        raise TrainerError(
            f"{member.task} cannot serve on port {member.port}: {error.message}. Most likely "
            "another process uses the port."
        ) from error
    # Not server.join(): Python could not run a signal handler in it.
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _LOG.info("%s serves at %s", member.task, server.target)
    # Not without a limit: a signal that another thread receives would not wake this one.
    while not stop.wait(_POLL_SECONDS):
        pass
    if member.task.role is Role.PS:
        _serve_while_running(cluster.of(Role.CHIEF))


def _serve_while_running(chiefs: Iterable[Member]) -> None:
    """Return when no chief accepts connections any more, or after CHIEF_SAVES_SECONDS.

    A chief that has not connected to its servers yet accepts none.
    """
    gone = threading.Event()

    def watch() -> None:
        for chief in chiefs:
            # Its address now: the name of a pod may be gone before its process.
            address = peers.resolve(chief)
            while address is not None and peers.connect(address) is None:
                gone.wait(_POLL_SECONDS)
        gone.set()

    threading.Thread(target=watch, name="chief", daemon=True).start()
    # A name server that does not answer must not hold it longer.
    if not gone.wait(CHIEF_SAVES_SECONDS):
        _LOG.info("exiting after %.0f s although the chief is still running", CHIEF_SAVES_SECONDS)
