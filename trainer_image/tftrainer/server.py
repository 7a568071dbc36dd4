"""A worker or ps of a ParameterServer job: a TensorFlow server that does what the chief says.

Of the cluster it uses only its own address, so that the cluster can change without it, and it
never ends by itself.
"""

import logging
import threading
import time

from tftrainer import server_library
from tftrainer.cluster import Cluster
from tftrainer.environment import Environment
from tftrainer.errors import TrainerError

_LOG = logging.getLogger(__name__)
# With as few threads as one visible core gives, the first steps of all workers wait for each other.
_LEAST_THREADS = 32


def serve(environment: Environment, cluster: Cluster) -> None:
    """Serve until a signal ends the process."""
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
            "another process holds the port."
        ) from error
    _LOG.info("%s serves at %s", member.task, server.target)
    # Not server.join(): Python could not run a signal handler in it.
    threading.Event().wait()
