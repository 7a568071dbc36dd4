"""Starts trainer processes from one that has imported TensorFlow already: a start costs no import.

A template process imports the trainer with TensorFlow, once. It forks whenever it is asked to, and
the child runs the trainer's own entry point with the arguments, the environment, the folder and the
log that it was given. TensorFlow has no threads and no devices before its first use, so the child
is as fresh as a new interpreter, except that nothing is imported in it for the first time.

A request is one message of JSON on a Unix socket; the answers are the child's pid and, when it has
ended, its exit code. Used by harness; run as a script, this file is the template process.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

_MODULES = ("mirrored", "parameter_server", "evaluator", "runtime.http_server")
_LONGEST_REQUEST = 1 << 20
_LONGEST_ANSWER = 64


class Forked:
    """A child of the template, with what is used of subprocess.Popen."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.returncode: int | None = None
        self.pid = int(answers.recv(_LONGEST_ANSWER))

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code; raises subprocess.TimeoutExpired after so many seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("tftrainer", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            # The template may have seen its end, and not have said so yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                answer = self._answers.recv(_LONGEST_ANSWER)
            except (BlockingIOError, TimeoutError):
                return None
            assert answer, "the template process has ended"
            self.returncode = int(answer)
            self._answers.close()
        return self.returncode


class Template:
    """The template process of one test session; started when it is first needed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # One thread: what others hold at a fork would be held for ever in the child.
        self._env = {**env, "OPENBLAS_NUM_THREADS": "1"}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""

    def start(self, arguments: list[str], env: Mapping[str, str], cwd: Path, log: Path) -> Forked:
        """Run the trainer with these arguments and no variables but these."""
        if self._process is None:
            self._begin()
        log.touch()
        answers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        answers.connect(self._address)
        request = {"arguments": arguments, "env": dict(env), "cwd": str(cwd), "log": str(log)}
        answers.send(json.dumps(request).encode())
        return Forked(answers)

    def stop(self) -> None:
        """End the template process; its children go on."""
        if self._process is not None:
            # Ends its input.
            self._process.communicate()
            Path(self._address).unlink()
            Path(self._folder).rmdir()

    @property
    def _address(self) -> str:
        return f"{self._folder}/template"

    def _begin(self) -> None:
        # A socket's path has to be short; a test's folder need not be.
        self._folder = tempfile.mkdtemp()
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._address],
            env=self._env,
            stdout=subprocess.PIPE,
            # Closed when this process ends, however it ends; the template then ends too.
            stdin=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        with self._process.stdout as told:
            assert told.readline() == b"ready\n", "the template process did not start"


def _serve(address: str) -> NoReturn:
    from tftrainer import __main__ as trainer  # noqa: PLC0415 -- not for those who import Template
    from tftrainer.runtime import process  # noqa: PLC0415

    process.prepare(os.environ)
    with process.without_garbage_collection():
        for name in _MODULES:
            importlib.import_module(f"tftrainer.{name}")
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "the template must have one thread"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ended, wakes = socket.socketpair()
    wakes.settimeout(0.0)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for each in (listener, ended, sys.stdin):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if sys.stdin in ready:
                os._exit(0)
            if ended in ready:
                ended.recv(4096)
                _reap(children)
            if listener in ready:
                answers, _ = listener.accept()
                request = json.loads(answers.recv(_LONGEST_REQUEST))
                pid = os.fork()
                if pid == 0:
                    _become(request)
                    trainer.main(request["arguments"])
                children[pid] = answers
                _send(answers, pid)


def _become(request: Mapping[str, Any]) -> None:
    """Take on what a new process would have been given."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # read once, by what was imported
    sys.argv = ["tftrainer", *request["arguments"]]
    sys.path[0] = request["cwd"]


def _reap(children: dict[int, socket.socket]) -> None:
    """Tell those who wait which of the children have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        answers = children.pop(pid)
        _send(answers, os.waitstatus_to_exitcode(status))
        answers.close()


def _send(answers: socket.socket, number: int) -> None:
    # Whoever asked may have gone.
    with contextlib.suppress(OSError):
        answers.send(str(number).encode())


if __name__ == "__main__":
    _serve(sys.argv[1])
