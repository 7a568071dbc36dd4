"""What a test does as a user (jobs) and as a kubelet (pod statuses)."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.apiserver import ApiServer, Response
from tools.waiting import eventually

_Object = dict[str, Any]

GROUP_PATH = "/apis/tftraining.dev/v1alpha1"

_WRITE = re.compile(
    r'^apiserver_request_total\{.*resource="(?P<resource>pods|services|networkpolicies|'
    r'poddisruptionbudgets|events|tftrainingjobs)".*'
    r'verb="(?P<verb>POST|PUT|PATCH|DELETE)".*\} (?P<count>\d+)$',
    re.MULTILINE,
)


def manifest(name: str = "mnist", **spec: Any) -> _Object:
    """Return a small ParameterServer job; keywords replace fields of its spec."""
    container = {"name": "tensorflow", "args": ["--task=tftrainer.examples.mnist"]}
    return {
        "apiVersion": "tftraining.dev/v1alpha1",
        "kind": "TFTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "worker": {"replicas": 2},
            "ps": {},
            **spec,
        },
    }


def writes(server: ApiServer) -> dict[str, int]:
    """Read how many writes the API server itself has counted, by verb and resource."""
    counted: dict[str, int] = {}
    for found in _WRITE.finditer(server.kubectl("get", "--raw", "/metrics")):
        key = f"{found['verb']} {found['resource']}"
        counted[key] = counted.get(key, 0) + int(found["count"])
    return counted


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace of the test's own."""

    server: ApiServer
    name: str

    def apply(self, job: _Object) -> None:
        """Apply a manifest with kubectl, as a user does."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(job))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace."""
        return self.server.kubectl("-n", self.name, *arguments, stdin=stdin)

    def job(self, name: str = "mnist") -> _Object:
        """Read a job."""
        path = f"{GROUP_PATH}/namespaces/{self.name}/tftrainingjobs/{name}"
        return self.server.request("GET", path).body

    def status(self, name: str = "mnist") -> _Object:
        """Read a job's status."""
        return self.job(name).get("status") or {}

    def patch_status(self, name: str, status: _Object) -> None:
        """Merge a patch into a job's status, as another version of the operator would."""
        path = f"{GROUP_PATH}/namespaces/{self.name}/tftrainingjobs/{name}/status"
        self.server.merge(path, {"status": status})

    def condition(self, kind: str, name: str = "mnist") -> _Object:
        """Read one condition, {} if it is not there."""
        conditions = self.status(name).get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), {})

    def wait_for(
        self, kind: str, value: str = "True", name: str = "mnist", seconds: float = 30
    ) -> _Object:
        """Wait for a condition and return it."""
        return eventually(
            lambda: c if (c := self.condition(kind, name)).get("status") == value else None,
            f"{kind}={value}, status {json.dumps(self.status(name))[:1500]}",
            seconds,
        )

    def pods(self) -> dict[str, _Object]:
        """Read all pods by name."""
        found = self.server.request("GET", f"/api/v1/namespaces/{self.name}/pods").body["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def wait_for_pods(self, *names: str) -> dict[str, _Object]:
        """Wait until exactly these pods exist and return them."""
        eventually(lambda: set(self.pods()) == set(names), f"exactly the pods {sorted(names)}")
        return self.pods()

    def attempt(self, pod: str) -> str | None:
        """Read the attempt that a pod was created in, None while there is no such pod."""
        found = self.pods().get(pod)
        return found["metadata"]["labels"]["tftraining.dev/attempt"] if found else None

    def services(self) -> list[str]:
        """Read the services' names."""
        found = self.server.request("GET", f"/api/v1/namespaces/{self.name}/services").body["items"]
        return [service["metadata"]["name"] for service in found]

    def events(self) -> list[tuple[str, str]]:
        """Read (reason, note) of all events in the order of their making."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.name}/events"
        found = self.server.request("GET", path).body["items"]
        found.sort(key=lambda event: event["eventTime"])
        return [(event["reason"], event["note"]) for event in found]

    def set_pod(self, name: str, **status: Any) -> None:
        """Write a pod's status, as its kubelet does."""
        path = f"/api/v1/namespaces/{self.name}/pods/{name}/status"
        self.server.merge(path, {"status": status})

    def run(self, *names: str, ready: bool = True, ip: str = "198.18.0.9") -> None:
        """Let pods run."""
        for name in names:
            self.set_pod(
                name,
                phase="Running",
                podIP=ip,
                conditions=[_ready(ready=ready)],
                containerStatuses=[_container({"running": {}}, ready=ready)],
            )

    def run_all(self) -> None:
        """Let all pods run, the chief last: it is ready when it has reached every server."""
        self.run(*sorted(self.pods(), key=lambda name: "-chief-" in name))
        self.wait_for("PodsReady")

    def end(self, name: str, code: int, message: str = "", **terminated: Any) -> None:
        """Let a pod's container end for good."""
        state = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "message": message,
            "finishedAt": _now(),
            **terminated,
        }
        self.set_pod(
            name,
            phase="Succeeded" if code == 0 else "Failed",
            conditions=[_ready(ready=False)],
            containerStatuses=[_container({"terminated": state})],
        )

    def evict(self, name: str) -> Response:
        """Ask for the eviction of a pod, as a drain does."""
        path = f"/api/v1/namespaces/{self.name}/pods/{name}/eviction"
        metadata = {"name": name, "namespace": self.name}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        return self.server.request("POST", path, body)

    def delete_pod(self, name: str) -> None:
        """Delete a pod, as somebody may."""
        path = f"/api/v1/namespaces/{self.name}/pods/{name}"
        self.server.request("DELETE", path, query={"gracePeriodSeconds": "0"})

    def end_half_deletions(self) -> None:
        """Delete pods whose deletion was begun and never done, as their kubelets do.

        The API server first notes that a pod ends, and then takes it away: not if who asked for it
        is gone by then.
        """
        for name, pod in self.pods().items():
            if pod["metadata"].get("deletionGracePeriodSeconds") == 0:
                self.delete_pod(name)


class Made:
    """The pods of a namespace that were ever made, since this began.

    The API server tells what happened in the last 75 s: to be looked at more often than that.
    """

    def __init__(self, space: Namespace) -> None:
        self._space = space
        self._path = f"/api/v1/namespaces/{space.name}/pods"
        listed = space.server.request("GET", self._path).body
        self._since = str(listed["metadata"]["resourceVersion"])
        self._uids: dict[tuple[str, str], set[str]] = defaultdict(set)

    def look(self) -> dict[tuple[str, str], set[str]]:
        """Take in what was made since the last look; return all uids by name and attempt."""
        for event in self._space.server.watch(self._path, self._since, 1):
            metadata: _Object = event["object"]["metadata"]
            attempt = metadata["labels"]["tftraining.dev/attempt"]
            self._uids[metadata["name"], attempt].add(metadata["uid"])
            self._since = metadata["resourceVersion"]
        return self._uids


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ready(*, ready: bool) -> _Object:
    return {"type": "Ready", "status": str(ready), "lastTransitionTime": _now()}


def _container(state: _Object, *, ready: bool = False) -> _Object:
    return {
        "name": "tensorflow",
        "image": "any",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }
