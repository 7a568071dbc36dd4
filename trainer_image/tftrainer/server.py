"""A worker or ps of a ParameterServer job: a TensorFlow server that runs what the chief sends.

`serve` is public, for scripts of one's own; __main__ calls `run`. TensorFlow is given the server's
own address only, so that the cluster can change without it, and it never ends by itself. A ps that
gets SIGTERM goes on serving while the chief is running, for a few seconds: when a whole job or node
is shut down, the chief reads the variables to save them.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterable
from typing import NoReturn

from tftrainer import server_library
from tftrainer.config import environment as env
from tftrainer.config.cluster import Cluster, Member, Role
from tftrainer.config.environment import Environment, Strategy
from tftrainer.errors import BadConfigurationError, TrainerError
from tftrainer.exit_codes import ExitCode
from tftrainer.peering import connections, peers
from tftrainer.runtime import process, supervisor
from tftrainer.runtime.threads import threads_of_each

_LOG = logging.getLogger(__name__)
# With the default of one thread per visible core, the first steps of all workers can deadlock.
_LEAST_THREADS = 32
CHIEF_SAVES_SECONDS = 5.0
"""How long a ps serves after SIGTERM at most, while the chief is running."""
_POLL_SECONDS = 0.1
_CHIEF_POLL_SECONDS = 0.5


def serve(*, chief_gone_seconds: float = 30.0) -> NoReturn:
    """Serve as the worker or ps that TF_CONFIG names; the process ends here, with exit code 0.

    For scripts of one's own, instead of `tf.distribute.Server(...).join()`, which never returns: as
    the first process of a container, it does not even end on SIGTERM. This ends on SIGTERM, as the
    operator sends it when the job ends. Where no operator does, without TFTRAINING_JOB_UID, it
    ends when a chief was there and has been gone for `chief_gone_seconds`.

    Call it in the main thread. What is wrong ends the process with 64 and a message that names the
    fix.
    """
    process.configure_logging()
    try:
        found = env.read(os.environ)
        cluster = _cluster_of_server(found)
        supervisor.end_on_sigterm()
        run(found, cluster, chief_gone_seconds=None if found.job_uid else chief_gone_seconds)
    except TrainerError as error:
        supervisor.leave(error.code, str(error), env.termination_log(os.environ))
    supervisor.leave(ExitCode.SUCCEEDED, None, found.termination_log)


def run(
    environment: Environment,
    cluster: Cluster,
    *,
    chief_gone_seconds: float | None = None,
    cpus: int = 1,
) -> None:
    """Serve until SIGTERM or SIGINT, and return when the process may end.

    With `chief_gone_seconds`, also return when a chief was there and is gone for so long. `cpus` is
    the number of logical devices that the CPU is split into.
    """
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
            config=library.ConfigProto(
                inter_op_parallelism_threads=threads,
                intra_op_parallelism_threads=threads_of_each(cpus),
                device_count={"CPU": cpus},
            ),
        )
    except library.OpError as error:
        raise TrainerError(
            f"{member.task} cannot serve on port {member.port}: {error.message}. Most likely "
            "another process uses the port."
        ) from error
    # Not server.join(): Python could not run a signal handler in it.
    stop, chief_gone = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _LOG.info("%s serves at %s", member.task, server.target)
    chiefs = cluster.of(Role.CHIEF)
    if chief_gone_seconds is not None and chiefs:
        _watch(chiefs, chief_gone, chief_gone_seconds)
    # Not without a limit: a signal that another thread receives would not wake this one.
    while not stop.wait(_POLL_SECONDS):
        if chief_gone.is_set():
            _LOG.info("exiting: the chief has been gone for %.0f s", chief_gone_seconds)
            return
    if member.task.role is Role.PS:
        _serve_while_running(chiefs, member.port)


def _cluster_of_server(found: Environment) -> Cluster:
    cluster, task = found.cluster, found.task
    if threading.current_thread() is not threading.main_thread():
        raise BadConfigurationError(
            "tftrainer.server.serve() was called in another thread than the main one, which alone "
            "receives signals: call it in the main thread."
        )
    if cluster is None:
        raise BadConfigurationError(
            "tftrainer.server.serve() serves the worker or ps that TF_CONFIG names, but TF_CONFIG "
            "is not set: run the script in a TFTrainingJob, or on this computer with `tftj run "
            "--local` and the job's manifest."
        )
    if task.role not in (Role.WORKER, Role.PS):
        raise BadConfigurationError(
            f"tftrainer.server.serve() was called by {task}, but only workers and ps serve: call "
            'it under `if resolver.task_type in ("worker", "ps"):`.'
        )
    if found.strategy is not Strategy.PARAMETER_SERVER:
        raise BadConfigurationError(
            f"tftrainer.server.serve() was called by {task} of a job with strategy "
            f"{found.strategy}, whose workers train: set strategy: ParameterServer, or remove the "
            "call."
        )
    return cluster


def _watch(chiefs: Iterable[Member], gone: threading.Event, seconds: float) -> None:
    """Set `gone` in another thread when a chief was there and has not been for so long.

    A chief accepts connections from the moment at which it has connected to all its servers.
    """

    def watch() -> None:
        last_seen: float | None = None
        while last_seen is None or time.monotonic() - last_seen < seconds:
            if any(peers.connect(chief) is None for chief in chiefs):
                last_seen = time.monotonic()
            time.sleep(_CHIEF_POLL_SECONDS)
        gone.set()

    threading.Thread(target=watch, name="chief", daemon=True).start()


def _serve_while_running(chiefs: Iterable[Member], port: int) -> None:
    """Return when no chief accepts connections any more, or after CHIEF_SAVES_SECONDS.

    A chief that has not connected to its servers yet accepts none. `port` is this server's own.
    """
    gone = threading.Event()

    def watch() -> None:
        for chief in chiefs:
            # Its address now: the name of a pod may be gone before its process.
            address = peers.resolve(chief)
            # A job that is deleted loses its Service, and all names, when its pods get SIGTERM.
            while peers.connect(address) is None if address else connections.is_in_use(port):
                gone.wait(_POLL_SECONDS)
        gone.set()

    threading.Thread(target=watch, name="chief", daemon=True).start()
    # A name server that does not answer must not hold it longer.
    if not gone.wait(CHIEF_SAVES_SECONDS):
        _LOG.info("exiting after %.0f s although the chief is still running", CHIEF_SAVES_SECONDS)
