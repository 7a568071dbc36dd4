"""Entry point of every pod: reads arguments and environment, then runs the module of the role.

Only those modules import TensorFlow, so that errors that need no TensorFlow show before its slow
import. While the chief imports it, it already waits for its peers.
"""

import importlib
import logging
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

from tftrainer import server
from tftrainer.config import arguments, environment
from tftrainer.config.cluster import Cluster, Role
from tftrainer.config.environment import Environment, Strategy
from tftrainer.config.job import Job
from tftrainer.errors import TrainerError
from tftrainer.exit_codes import ExitCode
from tftrainer.peering import peers
from tftrainer.peering.peer_watch import PeerWatch
from tftrainer.runtime import process, supervisor
from tftrainer.runtime.progress import Progress, Snapshot
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.watchdog import Watchdog
from tftrainer.user import static_check

_LOG = logging.getLogger("tftrainer")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one task of a job; the process ends here."""
    process.configure_logging()
    process.prepare(os.environ)
    try:
        parsed = arguments.parse(sys.argv[1:] if argv is None else argv)
        _start(Job(parsed, environment.read(os.environ)))
    except TrainerError as error:
        supervisor.leave(error.code, str(error), environment.termination_log(os.environ))


def _start(job: Job) -> NoReturn:
    env = job.environment
    _LOG.info("%s of %s, strategy %s", env.task, env.job or "this computer", env.strategy)
    if env.cluster is not None and _is_server(env):
        supervisor.end_on_sigterm()
        server.run(env, env.cluster, cpus=job.arguments.logical_cpus)
        supervisor.leave(ExitCode.SUCCEEDED, None, env.termination_log)
    static_check.check(job.arguments.task)
    run = Run(
        Progress(Snapshot(role=env.task.role, attempt=env.attempt)),
        Watchdog(
            stall_seconds=job.arguments.stall_seconds,
            first_step_seconds=job.arguments.first_step_seconds,
        ),
    )
    if env.progress_port:
        # Imported here: workers and ps serve no progress, and it costs them time.
        from tftrainer.runtime import http_server  # noqa: PLC0415

        http_server.serve(env.progress_port, run.progress, run.is_alive)
    supervisor.supervise(
        lambda: _work(job, run),
        run,
        grace_seconds=job.arguments.grace_seconds,
        log=env.termination_log,
    )


def _is_server(env: Environment) -> bool:
    asynchronous = env.strategy is Strategy.PARAMETER_SERVER
    return env.task.role is Role.PS or (asynchronous and env.task.role is Role.WORKER)


def _work(job: Job, run: Run) -> None:
    env = job.environment
    cluster, is_chief = env.cluster, env.task.role is Role.CHIEF
    if env.task.role is Role.EVALUATOR:
        _import("tftrainer.evaluator").evaluate(job, run)
    elif cluster is not None and env.strategy is Strategy.PARAMETER_SERVER:
        # It goes on to watch while training: TensorFlow names no server that hangs.
        probe = peers.StatusProbe()
        _, answered = _wait_for(cluster, job, run, probe)
        parameter_server = _import("tftrainer.parameter_server")
        answered.result()
        # Not by name: TensorFlow would resolve it once more, and a name server that is behind may
        # have that of the pod before. Servers call the chief as well, where it says that it is. Who
        # loses a ps ends; a worker is found again by its name.
        located = cluster.located(Role.PS, probe.where_it_answered)
        near = next(iter(located.of(Role.PS)), cluster.own)
        located = located.located(Role.CHIEF, lambda own: peers.facing(own, near))
        parameter_server.train(job, run, located)
    elif cluster is not None and env.strategy is Strategy.MULTI_WORKER_MIRRORED and is_chief:
        # Members serve no status before the chief is there, but their ports are open.
        watch, connected = _wait_for(cluster, job, run, peers.connect)
        mirrored = _import("tftrainer.mirrored")
        connected.result()
        watch.stop()
        mirrored.train(job, run)
    else:
        _import("tftrainer.mirrored").train(job, run)


def _wait_for(
    cluster: Cluster, job: Job, run: Run, probe: peers.Probe
) -> tuple[PeerWatch, Future[None]]:
    """Wait in a thread, so that TensorFlow can be imported meanwhile."""
    watch = PeerWatch(cluster.peers, run.progress, probe)
    watch.start()
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="waiting")
    return watch, pool.submit(watch.wait, run, timeout=job.arguments.peer_timeout)


def _import(name: str) -> Any:  # noqa: ANN401 -- a module that is imported late
    began = time.monotonic()
    with process.without_garbage_collection():
        module = importlib.import_module(name)
    _LOG.info("imported TensorFlow in %.1f s", time.monotonic() - began)
    return module


if __name__ == "__main__":
    main()
