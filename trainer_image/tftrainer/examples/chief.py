"""Runs a program of one's own as the chief of a cluster, where there is no Keras model to train.

The workers and ps stay as they are. Waiting for them, /progress, signals, exit codes and the
termination log are the trainer's; TensorFlow and what is done with it are the program's.
"""

import logging
import os
from collections.abc import Callable
from typing import NoReturn

from tftrainer.config import environment
from tftrainer.config.cluster import Cluster, Role
from tftrainer.config.environment import Environment
from tftrainer.errors import BadConfigurationError, TrainerError
from tftrainer.peering import peers
from tftrainer.peering.peer_watch import PeerWatch
from tftrainer.runtime import http_server, process, supervisor
from tftrainer.runtime.progress import Progress, Snapshot
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.watchdog import Watchdog

Program = Callable[[Cluster, Run], None]
"""Called when all peers answer. A return is success; a TrainerError ends with its code."""

_LOG = logging.getLogger(__name__)
_PEER_SECONDS = 3600.0
_STALL_SECONDS = 120.0


def run(program: Program) -> NoReturn:
    """Run the program as this process's only work; the process ends here."""
    process.configure_logging()
    process.prepare(os.environ)
    try:
        env = environment.read(os.environ)
        cluster = _cluster_of_chief(env)
    except TrainerError as error:
        supervisor.leave(error.code, str(error), environment.termination_log(os.environ))
    shared = Run(
        Progress(Snapshot(role=Role.CHIEF, attempt=env.attempt)),
        Watchdog(stall_seconds=_STALL_SECONDS, first_step_seconds=_STALL_SECONDS),
    )
    if env.progress_port:
        http_server.serve(env.progress_port, shared.progress, shared.is_alive)

    def work() -> None:
        watch = PeerWatch(cluster.peers, shared.progress, peers.StatusProbe())
        watch.start()
        watch.wait(shared, timeout=_PEER_SECONDS)
        program(cluster, shared)

    supervisor.supervise(work, shared, grace_seconds=0.0, log=env.termination_log)


def _cluster_of_chief(env: Environment) -> Cluster:
    cluster = env.cluster
    if cluster is None or env.task.role is not Role.CHIEF or not cluster.of(Role.PS):
        raise BadConfigurationError(
            f"this program is for the chief of a cluster with workers and ps, but this process is "
            f"{env.task}{'' if cluster else ' without TF_CONFIG'}. Run it as a job's chief, or on "
            "this computer with `tftj run --local` and the job's manifest."
        )
    return cluster
