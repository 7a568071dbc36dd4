"""The API server over plain HTTP, for what must be quick or never ends; kubectl does the rest.

`kubectl proxy` knows every way to log in, and stays when the API server goes.
"""

import http.client
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tools.cluster import Cluster, ClusterError
from tools.cluster.shell import bound

_Object = dict[str, Any]

_AGAIN_SECONDS = 0.1
_WATCH_SECONDS = 300


class ApiError(Exception):
    """The API server does not answer, or not with 200."""


@dataclass(frozen=True, slots=True)
class Api:
    """A way to the API server that needs no credentials."""

    port: int

    def get(self, path: str, timeout: float = 3.0) -> _Object:
        """Read JSON. Raises ApiError."""
        with self._request(path, timeout) as response:
            try:
                found: _Object = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise ApiError(f"{path}: {error}") from error
            return found

    def watch(self, path: str, see: Callable[[str, _Object], None], end: threading.Event) -> None:
        """Call `see` with type and object, first of all that is there, then of every change.

        Goes on until `end` is set; after a pause of the API server, what changed meanwhile is seen
        as ADDED once more, or as DELETED.
        """
        known: dict[str, _Object] = {}
        while not end.is_set():
            with suppress(ApiError, OSError, http.client.HTTPException, ValueError):
                self._watch_once(path, see, end, known)
            end.wait(_AGAIN_SECONDS)

    def _watch_once(
        self,
        path: str,
        see: Callable[[str, _Object], None],
        end: threading.Event,
        known: dict[str, _Object],
    ) -> None:
        listed = self.get(path)
        present = {item["metadata"]["uid"]: item for item in listed["items"]}
        for uid in [uid for uid in known if uid not in present]:
            see("DELETED", known.pop(uid))
        for uid, item in present.items():
            if (
                known.get(uid, {}).get("metadata", {}).get("resourceVersion")
                != (item["metadata"]["resourceVersion"])
            ):
                known[uid] = item
                see("ADDED", item)
        sign = "&" if "?" in path else "?"
        since = listed["metadata"]["resourceVersion"]
        query = f"{path}{sign}watch=1&resourceVersion={since}&timeoutSeconds={_WATCH_SECONDS}"
        with self._request(query, timeout=_WATCH_SECONDS + 10.0) as response:
            while not end.is_set() and (line := response.readline()):
                change = json.loads(line)
                if change["type"] == "ERROR":
                    return
                item = change["object"]
                if change["type"] == "DELETED":
                    known.pop(item["metadata"]["uid"], None)
                else:
                    known[item["metadata"]["uid"]] = item
                see(change["type"], item)

    @contextmanager
    def _request(self, path: str, timeout: float) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            try:
                connection.request("GET", path)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise ApiError(f"{path}: {error}") from error
            if response.status != http.client.OK:
                raise ApiError(f"{path}: {response.status} {response.reason}")
            yield response
        finally:
            connection.close()


@contextmanager
def open_api(cluster: Cluster) -> Iterator[Api]:
    """Have a way to the API server for the time of the block."""
    command = bound(
        [cluster.tool("kubectl"), "--kubeconfig", cluster.kubeconfig, "proxy", "--port=0"]
    )
    with subprocess.Popen(
        # It logs each request that it could not serve, and ApiError says the same.
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if ":" not in said:
                raise ClusterError(f"kubectl proxy does not start: {said}")
            yield Api(int(said.rpartition(":")[2]))
        finally:
            process.terminate()
