"""Runs pods as processes and reports their status as a kubelet does. Decides nothing."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from tftraining_operator.api.keys import LABEL_ROLE, Role
from tftraining_operator.core.exit_codes import ExitCode

from tftraining.cli.local import pod_status
from tftraining.cli.local.addresses import connects
from tftraining.cli.local.commands import Command
from tftraining.cli.local.guard import Guard
from tftraining.cli.local.pod_status import Ended, Life

_Object = dict[str, Any]

_GRACE_SECONDS = 30
_PROBE = timedelta(seconds=1)
_PROBES_FAILED = 3
_MESSAGE_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Task:
    """What a pod is on this computer."""

    command: Command
    log: Path
    termination_log: Path
    probed_port: int | None
    """The port that makes it ready when it is open; None if it is ready as soon as it runs."""


@dataclass(slots=True)
class _Pod:
    raw: _Object
    task: Task
    life: Life
    process: subprocess.Popen[bytes] | None = None
    quick_deaths: int = 0
    start_at: datetime | None = None
    probe_at: datetime | None = None
    probes_failed: int = 0
    log_began: int = 0
    """Where in the log the present process begins."""

    @property
    def policy(self) -> str:
        return str(self.raw["spec"]["restartPolicy"])


class Kubelet:
    """The pods of one job on this computer; call `tick` often."""

    def __init__(self, clock: Callable[[], datetime], scratch: Path) -> None:
        """Begin without pods; if this process is killed, they end and `scratch` is removed."""
        self._clock = clock
        self._pods: dict[str, _Pod] = {}
        self._guard = Guard(scratch)

    def runs(self, roles: Collection[Role]) -> bool:
        """Return whether a process of one of these roles is left."""
        return any(p.process is not None for p in self._pods.values() if _role(p) in roles)

    def pods(self) -> list[_Object]:
        """Return every pod as the API server would."""
        return [_object(pod) for pod in self._pods.values()]

    def pod(self, name: str) -> _Object | None:
        """Return one pod as the API server would, None if it does not exist."""
        pod = self._pods.get(name)
        return _object(pod) if pod is not None else None

    def create(self, raw: _Object, task: Task) -> None:
        """Start a pod. Raises OSError if its log cannot be written."""
        pod = _Pod(raw, task, Life(self._clock()))
        self._pods[raw["metadata"]["name"]] = pod
        self._start(pod)

    def delete(self, name: str, grace: int | None = None) -> None:
        """End a pod within `grace` seconds, its own if None; a pod without a process is removed.

        A second call can only shorten the grace period, as in Kubernetes.
        """
        pod, now = self._pods[name], self._clock()
        own = pod.raw["spec"].get("terminationGracePeriodSeconds")
        seconds = grace if grace is not None else own if own is not None else _GRACE_SECONDS
        until = now + timedelta(seconds=seconds)
        if pod.life.deleted_until is None:
            _signal(pod, signal.SIGTERM)
        if pod.life.deleted_until is None or until < pod.life.deleted_until:
            pod.life = replace(pod.life, deleted_until=until, grace_seconds=seconds)
        if seconds == 0 and pod.process is not None:
            _kill(pod)
            pod.process.wait()
        self._reap(pod, now)
        if pod.process is None:
            del self._pods[name]

    def tick(self) -> None:
        """Update the pods' status; start, probe and kill the processes whose time has come."""
        now = self._clock()
        for name, pod in list(self._pods.items()):
            self._reap(pod, now)
            gone_by = pod.life.deleted_until
            if gone_by is not None and pod.process is None:
                del self._pods[name]
            elif gone_by is not None and now >= gone_by:
                _kill(pod)
            elif pod.start_at is not None and now >= pod.start_at:
                self._start(pod)
            _probe(pod, now)

    def end(self, roles: Collection[Role]) -> None:
        """Ask the pods of some roles to end."""
        for name, pod in list(self._pods.items()):
            if _role(pod) in roles:
                self.delete(name)

    def kill(self) -> None:
        """End every process at once, and wait for it; nothing can be started afterwards."""
        for pod in self._pods.values():
            _kill(pod)
        for pod in self._pods.values():
            if pod.process is not None:
                pod.process.wait()
                self._sweep(pod.process)
        self._pods.clear()
        self._guard.close()

    def _start(self, pod: _Pod) -> None:
        task, now = pod.task, self._clock()
        task.termination_log.write_bytes(b"")
        restarts = pod.life.restarts + (pod.life.ended is not None)
        ready = now if task.probed_port is None else None
        pod.life = replace(pod.life, running_since=now, ready_since=ready, restarts=restarts)
        pod.start_at, pod.probe_at, pod.probes_failed = None, now, 0
        with task.log.open("ab") as log:
            pod.log_began = log.tell()
            try:
                pod.process = _popen(task.command, log)
            except OSError as error:
                log.write(f"cannot start {task.command.argv[0]}: {error.strerror}\n".encode())
                log.flush()
                is_missing = isinstance(error, FileNotFoundError)
                code = ExitCode.NOT_FOUND if is_missing else ExitCode.NOT_EXECUTABLE
                _note_end(pod, int(code), now)
                return
        self._guard.watch(pod.process.pid)

    def _reap(self, pod: _Pod, now: datetime) -> None:
        process = pod.process
        if process is not None and process.poll() is not None:
            self._sweep(process)
            _note_end(pod, process.returncode, now)

    def _sweep(self, process: subprocess.Popen[bytes]) -> None:
        """Kill what an ended process has left behind in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._guard.forget(process.pid)


def _object(pod: _Pod) -> _Object:
    return {
        **pod.raw,
        "metadata": pod.raw["metadata"] | pod_status.metadata(pod.life),
        "status": pod_status.status(pod.life, pod.policy),
    }


def _popen(command: Command, log: IO[bytes]) -> subprocess.Popen[bytes]:
    # A group of its own: Ctrl-C in the terminal is ours to pass on.
    return subprocess.Popen(  # noqa: S603 - the job's own command
        command.argv,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=command.variables,
        cwd=command.folder,
        start_new_session=True,
    )


def _note_end(pod: _Pod, code: int, now: datetime) -> None:
    ended = Ended(
        # As shells and container runtimes encode a signal.
        code=code if code >= 0 else 128 - code,
        message=_termination_message(pod, code),
        started_at=pod.life.running_since or now,
        finished_at=now,
    )
    pod.process = None
    pod.life = replace(pod.life, running_since=None, ready_since=None, ended=ended)
    if pod_status.is_restarted(pod.policy, ended):
        pod.quick_deaths = 0 if ended.ran_well else pod.quick_deaths + 1
        pod.start_at = now + pod_status.pause(pod.quick_deaths)


def _termination_message(pod: _Pod, code: int) -> str:
    message = pod.task.termination_log.read_bytes().decode(errors="replace")
    if message or code == 0:
        return message
    # As terminationMessagePolicy FallbackToLogsOnError.
    with pod.task.log.open("rb") as log:
        end = log.seek(0, os.SEEK_END)
        log.seek(max(pod.log_began, end - _MESSAGE_BYTES))
        message = log.read().decode(errors="replace").rstrip()
    if code < 0:
        message += f"\nended by signal {-code} ({signal.strsignal(-code)})"
    return message


def _probe(pod: _Pod, now: datetime) -> None:
    port = pod.task.probed_port
    if port is None or pod.process is None or pod.probe_at is None or now < pod.probe_at:
        return
    pod.probe_at = now + _PROBE
    if connects(port):
        pod.probes_failed = 0
        pod.life = replace(pod.life, ready_since=pod.life.ready_since or now)
        return
    pod.probes_failed += 1
    if pod.probes_failed >= _PROBES_FAILED:
        pod.life = replace(pod.life, ready_since=None)


def _signal(pod: _Pod, number: signal.Signals) -> None:
    """Signal the pod's own process, as a container's first process gets it."""
    if pod.process is not None:
        pod.process.send_signal(number)


def _kill(pod: _Pod) -> None:
    """Kill the process and what it has started; `tick` or `kill` reaps it."""
    if pod.process is not None and pod.process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pod.process.pid, signal.SIGKILL)


def _role(pod: _Pod) -> Role:
    return Role(pod.raw["metadata"]["labels"][LABEL_ROLE])
