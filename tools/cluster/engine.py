"""Provides a Docker engine: the one that answers, or Debian's dockerd, started and stopped here.

Our engine keeps its images in the cache and everything else in a run folder named after the cache,
so every later process, also after a crash, finds the engine to reuse or to clean up. Only processes
whose command line names one of these two folders are ever ended.
"""

import contextlib
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import leftovers, oci_runtime
from tools.cluster.cache import cache_dir, digest, locked
from tools.cluster.debian import Toolbox, toolbox
from tools.cluster.machine import Machine, look
from tools.cluster.shell import ClusterError, NoClusterError, Say, merged, run, silent, succeeds

# After a crash it first stops the containers that it finds, within ten seconds each.
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
# It takes connections before it answers, and may never come to that.
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine; `ours` says whether this module started it and may stop it."""

    env: dict[str, str]
    ours: bool
    machine: Machine

    def docker(self, *arguments: str | Path, timeout: float | None = None) -> str:
        """Run the docker client."""
        return run([self._client, *arguments], env=self.env, timeout=timeout)

    def pipe(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Pipe the output of one docker command into another."""
        with subprocess.Popen(
            [self._client, *source], env=merged(self.env), stdout=subprocess.PIPE
        ) as giving:
            run([self._client, *target], env=self.env, file_in=giving.stdout)
        if giving.returncode != 0:
            raise ClusterError(f"docker {' '.join(source)} failed (exit {giving.returncode})")

    @property
    def _client(self) -> str:
        # A bare name would be looked up in this process's PATH, not in the toolbox's.
        return shutil.which("docker", path=self.env.get("PATH")) or "docker"

    def has_image(self, image: str) -> bool:
        """Whether the engine has an image of this name."""
        try:
            self.docker("image", "inspect", image)
        except ClusterError:
            return False
        return True


def run_dir() -> Path:
    """Return the folder of our engine's socket, pid and containers; a reboot clears it."""
    # Short, because the path of a socket may have at most 107 characters.
    return Path("/run") / f"tftraining-{digest(str(cache_dir()))[:8]}"


def data_dir() -> Path:
    """Return the folder in which our engine keeps its images between runs."""
    return cache_dir() / "engine"


def engine(say: Say) -> Engine:
    """Return the running engine, or start our own. Raises ClusterError."""
    if (found := running(say)) is not None:
        return found
    machine = look()
    if machine.why_no_engine:
        raise NoClusterError(machine.why_no_engine)
    say("no Docker engine answers: starting one from Debian's packages")
    tools = toolbox(say)
    with locked(cache_dir() / "locks" / "engine"):
        if pid() is None:
            _start(machine, tools)
    return _ours(machine, tools)


def running(say: Say = silent) -> Engine | None:
    """Return the running engine, ours or the machine's."""
    machine = look()
    if pid() is not None:
        return _ours(machine, toolbox(say))
    if succeeds(["docker", "version", "--format", "{{.Server.Version}}"], timeout=20):
        return Engine(env={}, ours=False, machine=machine)
    return None


def pid() -> int | None:
    """Return our engine's process id; after a crash, the pid file may name another process."""
    try:
        number = int((run_dir() / "dockerd.pid").read_text())
        words = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")
    except (OSError, ValueError):
        return None
    return number if str(data_dir()) in words else None


def used() -> bool:
    """Whether our engine runs, or an earlier run of it left something to clean up."""
    containers = data_dir() / "containers"
    return (
        run_dir().exists()
        or pid() is not None
        or (containers.is_dir() and any(containers.iterdir()))
    )


def was_started() -> bool:
    """Whether an engine answers, or our own was started on this machine before."""
    return data_dir().exists() or succeeds(["docker", "version"], timeout=20)


def stop(say: Say) -> list[str]:
    """Stop our engine and clean up; return what could not be removed."""
    if not run_dir().exists():
        return []
    say("stopping the Docker engine")
    number = pid()
    if number is not None:
        os.kill(number, signal.SIGTERM)
        if not _until(lambda: pid() is None, _STOP_SECONDS):
            os.kill(number, signal.SIGKILL)
    _end_orphans("containerd")
    tools = toolbox(say)
    saved = run_dir() / "before.json"
    rest = []
    if saved.exists():
        rest = leftovers.clean_up(leftovers.Record.load(saved), tools, run_dir(), data_dir())
    shutil.rmtree(run_dir())
    return rest


def _ours(machine: Machine, tools: Toolbox) -> Engine:
    # The legacy builder uses the configured OCI runtime; BuildKit calls runc directly.
    client = {"DOCKER_HOST": f"unix://{run_dir()}/docker.sock", "DOCKER_BUILDKIT": "0"}
    return Engine(env={"PATH": tools.env["PATH"], **client}, ours=True, machine=machine)


def _start(machine: Machine, tools: Toolbox) -> None:
    folder = run_dir()
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    # After a crash, the earlier record is the state to restore.
    if not (folder / "before.json").exists():
        leftovers.record(tools, folder, data_dir()).save(folder / "before.json")
    # dockerd trusts pid files, whose numbers may belong to other processes after a crash.
    _end_orphans("containerd --config")
    for name in ("dockerd.pid", "exec/containerd/containerd.pid"):
        (folder / name).unlink(missing_ok=True)
    if machine.cgroup_v1:
        _raise_cpu_shares()
    log = folder / "dockerd.log"
    # --fork makes init the parent, so that the engine outlives this process.
    run(["setsid", "--fork", *_with_log(_command(machine, tools), log)], env=tools.env)
    answers = _ours(machine, tools)
    if not _until(lambda: _answers(answers), _START_SECONDS):
        last = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
        raise ClusterError(f"the Docker engine did not start; the end of its log:\n{last}")


def _command(machine: Machine, tools: Toolbox) -> list[str]:
    folder = run_dir()
    command = [
        str(tools.tool("dockerd")),
        *("--data-root", str(data_dir())),
        *("--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "dockerd.pid")),
        *("--host", f"unix://{folder}/docker.sock"),
        *("--config-file", str(folder / "none.json")),
        *("--bip", leftovers.BRIDGE),
        *("--default-address-pool", f"base={leftovers.NETWORKS},size=24"),
        *("--exec-opt", "native.cgroupdriver=cgroupfs"),
        *("--oom-score-adjust", "0"),
    ]
    (folder / "none.json").write_text("{}")
    if not machine.sys_resource:
        command += [
            "--add-runtime",
            f"wrapper={_runtime_wrapper(tools)}",
            "--default-runtime",
            "wrapper",
        ]
    return command


def _raise_cpu_shares() -> None:
    """Let all containers together weigh as much as sixteen busy processes, rather than as one.

    Beside a few processes of the host, nodes would otherwise be too slow for their own probes.
    """
    # What the engine names the group of its containers; it leaves one alone that exists.
    containers = Path("/sys/fs/cgroup/cpu/docker")
    containers.mkdir(exist_ok=True)
    (containers / "cpu.shares").write_text(str(16 * 1024))


def _runtime_wrapper(tools: Toolbox) -> Path:
    """Write the program that the engine calls instead of runc."""
    # A copy, because the engine may outlive the checkout that starts it, or see it change.
    program = shutil.copy(oci_runtime.__file__, run_dir())
    wrapper = run_dir() / "runc-wrapper"
    # Isolated and without site-packages to start fast: it runs for every exec.
    python = [Path(sys.executable).resolve(), "-IS", program, tools.tool("runc")]
    words = " ".join(shlex.quote(str(word)) for word in python)
    wrapper.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return wrapper


def _with_log(command: list[str], log: Path) -> list[str]:
    script = 'log=$1; shift; exec "$@" >>"$log" 2>&1 </dev/null'
    return ["sh", "-c", script, "sh", str(log), *command]


def _answers(candidate: Engine) -> bool:
    try:
        candidate.docker("version", timeout=_ANSWER_SECONDS)
    except ClusterError:
        return False
    return True


def _end_orphans(command: str) -> None:
    """End containerd and its shims if dockerd was killed before it could."""
    for orphan in leftovers.processes([str(run_dir())]):
        number, words = orphan.split(" ", 1)
        if command in words:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
