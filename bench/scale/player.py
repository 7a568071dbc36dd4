"""Plays the pods of rounds of very many jobs: one that has a node runs, one that is deleted goes.

    python -m bench.scale.player KUBECONFIG URL CA TOKEN

kwok does so in all other rounds. From some ten thousand pods on it is slower than the API server
waits for it, which then ends its watch, and it begins each anew with all pods that there are: it
used most of the two cores for that, and came to a new pod after minutes, or never. Here what one
pod takes is some 0.3 ms.
"""

import asyncio
import sys
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.controller.watch import Watch
from tftraining_operator.core.times import rfc3339
from tftraining_operator.reconcile.store import Kind

from bench.scale.client import Client, connected
from tools.cluster.shell import ClusterError

_Object = dict[str, Any]

POD_ADDRESSES = "127.128.0.0/9"
"""Of loopback: where nobody listens, who asks a pod for its progress is refused at once."""
_AT_ONCE = 16


class Player:
    """What is to be done with each pod, once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._addresses = iter(IPv4Network(POD_ADDRESSES).hosts())
        self._waiting: asyncio.Queue[_Object] = asyncio.Queue()
        self._played: set[str] = set()

    def see(self, _kind: Kind, pod: _Object, what: str) -> None:
        """Take in a watch event."""
        uid = pod["metadata"]["uid"]
        if what == "DELETED":
            self._played.discard(uid)
        elif "deletionTimestamp" in pod["metadata"] or (
            "nodeName" in pod["spec"] and "podIP" not in pod["status"] and uid not in self._played
        ):
            self._played.add(uid)
            self._waiting.put_nowait(pod)

    async def play(self) -> None:
        """Write what becomes of pods, one after the other, until cancelled."""
        while True:
            pod = await self._waiting.get()
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            try:
                if "deletionTimestamp" in metadata:
                    await self._client.delete(path, grace=0)
                else:
                    address = str(next(self._addresses))
                    await self._client.patch_status(path, running(pod, address, datetime.now(UTC)))
            except ClusterError as error:
                if f"{path}: 404" not in str(error) and f"{path}/status: 404" not in str(error):
                    raise


def running(pod: _Object, address: str, now: datetime) -> _Object:
    """Return the status of a pod whose containers run, and are ready."""
    moment = rfc3339(now)
    return {
        "phase": "Running",
        "startTime": moment,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": moment}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


async def _main(kubeconfig: str, url: str, ca: str, token: str) -> None:
    api = await KubernetesApi.connect(kubeconfig, selector=lambda: "")
    async with connected(url, Path(ca), token) as client:
        player = Player(client)

        async def list_all(kind: Kind, namespace: str | None) -> str:
            version = ""
            async for page in api.pages(kind, namespace):
                version = page.resource_version
                for pod in page.items:
                    player.see(kind, pod, "ADDED")
            return version

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Watch(api, Kind.POD, None, player.see, list_all).follow(""))
            for _ in range(_AT_ONCE):
                tasks.create_task(player.play())


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
