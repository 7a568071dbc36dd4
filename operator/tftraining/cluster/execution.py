"""Runs a program in a container, through the official client's exec over WebSocket."""

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence

from kubernetes import client
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDERR_CHANNEL, STDOUT_CHANNEL, WSClient
from tftraining_operator.core.text import one_line, printable
from websocket import WebSocketException

from tftraining.errors import TFTrainingError, UnreachableError

_SILENCE = 120.0
"""Seconds without a byte after which the connection counts as broken."""
_MAX_STDERR = 4000
_HANDSHAKE = re.compile(r"Handshake status (\d+) ([\w ]+)")


class Execution:
    """A program that runs in a container; read its output to the end."""

    def __init__(self, websocket: WSClient) -> None:
        self._websocket = websocket
        self._stderr = b""

    def write(self, data: bytes) -> None:
        """Write to its standard input. Raises UnreachableError."""
        with _broken():
            self._websocket.write_stdin(data)

    def read(self) -> bytes:
        """Return the next part of its standard output, b"" at the end.

        Raises TFTrainingError with what it wrote to standard error if it failed.
        """
        with _broken():
            return self._read()

    def _read(self) -> bytes:
        while self._websocket.is_open():
            began = time.monotonic()
            self._websocket.update(timeout=_SILENCE)
            silent = time.monotonic() - began >= _SILENCE
            said = self._websocket.read_channel(STDERR_CHANNEL)
            self._stderr += said
            if found := self._websocket.read_channel(STDOUT_CHANNEL):
                return bytes(found)
            if self._websocket.peek_channel(ERROR_CHANNEL):
                break
            # A ping ends an update early, so that it counts as a sign of life.
            if silent and not said:
                raise UnreachableError(f"nothing came from the pod for {_SILENCE:.0f} s")
        if found := self._websocket.read_channel(STDOUT_CHANNEL):
            return bytes(found)
        self._stderr += self._websocket.read_channel(STDERR_CHANNEL)
        result = self._websocket.read_channel(ERROR_CHANNEL)
        if not result:
            raise UnreachableError("the connection to the pod broke")
        status = json.loads(result)
        if status.get("status") != "Success":
            said = printable(self._stderr[-_MAX_STDERR:].decode(errors="replace")).strip()
            raise TFTrainingError(said or printable(str(status.get("message"))))
        return b""


@contextlib.contextmanager
def execute(
    configuration: client.Configuration,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
) -> Iterator[Execution]:
    """Run a program until the block ends. Raises TFTrainingError if it cannot be started."""
    # A client of its own: stream() replaces a method of the client while it connects.
    api = client.CoreV1Api(client.ApiClient(configuration=configuration))
    try:
        websocket = stream(
            api.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=container,
            command=list(command),
            stdin=True,
            stdout=True,
            stderr=True,
            binary=True,
            _preload_content=False,
        )
    except (client.ApiException, OSError) as error:
        raise TFTrainingError(f"cannot run a program in pod {pod}: {_cause(error)}") from error
    # A frame may stop in the middle, which an update waits for without a limit.
    websocket.sock.settimeout(_SILENCE)
    try:
        yield Execution(websocket)
    finally:
        websocket.close()


def _cause(error: client.ApiException | OSError) -> str:
    """Return what the API server said; the client puts all of its answer into the reason."""
    text = str(getattr(error, "reason", error))
    handshake = _HANDSHAKE.match(text)
    if handshake is None:
        return one_line(text)
    if handshake[1] == "403":
        return "you may not: ask for the right to create and get pods/exec"
    return f"the API server answered {handshake[1]} {handshake[2]}"


@contextlib.contextmanager
def _broken() -> Iterator[None]:
    try:
        yield
    except (WebSocketException, OSError) as error:
        raise UnreachableError(f"the connection to the pod broke: {error}") from error
