"""What a user does in a namespace of a real cluster."""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.install import ROOT, namespaced
from tools.cluster import Cluster, ClusterError
from tools.cluster.images import image_name

_Object = dict[str, Any]

CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mnist}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the restricted Pod Security Standard asks of a container."""

_STATUS_FIELDS = (
    "state",
    "message",
    "attempt",
    "restarts",
    "lastFailure",
    "lastDisruption",
    "progress",
)
_ROUTINE = re.compile("Scheduled|Pulled|Created|Started|Provisioning")
_EVENTS = 40


def example(name: str) -> list[_Object]:
    """Read an example's objects."""
    return [o for o in yaml.safe_load_all((ROOT / "examples" / name).read_text()) if o]


def job(name: str = "mnist", *arguments: str, **spec: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return a job without checkpoint or evaluator; keywords replace fields of its spec."""
    container = {
        "name": "tensorflow",
        "args": ["--task=tftrainer.examples.mnist", *arguments],
        "resources": {"requests": {"cpu": "50m", "memory": "300Mi"}},
    }
    return {
        "apiVersion": "tftraining.dev/v1alpha1",
        "kind": "TFTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "worker": {"replicas": 1},
            "ps": {},
            **spec,
        },
    }


def job_without_node(name: str, **spec: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return a job whose pods fit on no node."""
    made = job(name, **spec)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/node": "none"}
    return made


def idle_pod(
    name: str,
    labels: Mapping[str, str] | None = None,
    resources: _Object | None = None,
    **spec: Any,  # noqa: ANN401 - YAML
) -> _Object:
    """Return a pod of no job that does nothing for an hour; keywords are more of its spec."""
    container = {
        "name": name,
        "image": image_name("trainer"),
        "command": ["python3", "-c", "import time; time.sleep(3600)"],
        "securityContext": RESTRICTED,
        "resources": resources or {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace."""

    cluster: Cluster
    name: str

    def environment(self) -> dict[str, str]:
        """Return the environment in which a user of the cluster runs tftj and kubectl."""
        kubectl = self.cluster.tool("kubectl")
        return {
            **os.environ,
            "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "PYTHONPATH": str(ROOT / "operator"),
        }

    def tftj(self, command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of tftj in the namespace."""
        return subprocess.run(
            self.tftj_command(command, *arguments),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def tftj_command(self, command: str, *arguments: str | Path) -> list[str | Path]:
        """Return the words of a command of tftj in the namespace."""
        program = (sys.executable, "-m", "tftraining.cli")
        return [*program, command, f"--namespace={self.name}", *arguments]

    def kubectl(self, *arguments: str | Path, text_in: str | None = None) -> str:
        """Run kubectl in the namespace. Raises ClusterError with what it said."""
        return self.cluster.kubectl("-n", self.name, *arguments, text_in=text_in)

    def apply(self, *objects: _Object) -> None:
        """Apply objects as a user does."""
        self.kubectl("apply", "-f", "-", text_in=yaml.safe_dump_all(objects))

    def read(self, what: str) -> _Object:
        """Read one object or a list."""
        found: _Object = json.loads(self.kubectl("get", what, "-o", "json"))
        return found

    def status(self, name: str = "mnist") -> _Object:
        """Read a job's status."""
        found: _Object = self.read(f"tftj/{name}").get("status") or {}
        return found

    def condition(self, kind: str, name: str = "mnist") -> _Object:
        """Read one condition, {} if it is not there."""
        return _condition(self.status(name), kind)

    def wait_for(
        self, kind: str, value: str = "True", name: str = "mnist", seconds: float = 240
    ) -> _Object:
        """Wait for a condition and return it."""
        condition, timeout = f"--for=condition={kind}={value}", f"--timeout={seconds}s"
        try:
            found = self.kubectl("wait", f"tftj/{name}", condition, timeout, "-o", "json")
        except ClusterError as error:
            raise AssertionError(f"{kind}={value}: {error}\n{self.describe(name)}") from error
        return _condition(json.loads(found)["status"], kind)

    def pods(self) -> dict[str, str]:
        """Read the pods' uids by name."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.read("pods")["items"]
        }

    def events(self, name: str = "mnist") -> list[_Object]:
        """Read a job's events, the oldest first."""
        of_job = (
            "--field-selector",
            f"involvedObject.kind=TFTrainingJob,involvedObject.name={name}",
        )
        found = json.loads(self.kubectl("get", "events", *of_job, "-o", "json"))["items"]
        # To the microsecond, where it is there.
        return sorted(found, key=lambda e: e["eventTime"] or e["metadata"]["creationTimestamp"])

    def describe(self, name: str = "mnist") -> str:
        """Describe a job for a failure's message: what says most comes first."""
        status = self.status(name)
        shown = {field: status.get(field) for field in _STATUS_FIELDS}
        columns = (
            "custom-columns=TIME:.lastTimestamp,WHO:.involvedObject.name,REASON:.reason,"
            "MESSAGE:.message"
        )
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp", "-o", columns)
        notable = [line for line in events.splitlines() if not _ROUTINE.search(line)]
        parts = [yaml.safe_dump(shown), "\n".join(notable[-_EVENTS:])]
        parts.append(self.kubectl("get", "pods", "-o", "wide"))
        for pod in self.pods():
            for when in ("", "--previous"):
                with suppress(ClusterError):
                    log = self.kubectl("logs", pod, "--tail=15", *filter(None, [when]))
                    parts.append(f"--- {pod} {when}\n{log}")
        parts.append(self.kubectl("describe", f"tftj/{name}"))
        return "\n".join(parts)

    def logs(self, pod: str) -> str:
        """Read a pod's log."""
        return self.kubectl("logs", pod)


def _condition(status: _Object, kind: str) -> _Object:
    return next((c for c in status.get("conditions") or [] if c["type"] == kind), {})


@contextmanager
def new_space(cluster: Cluster) -> Iterator[Space]:
    """Have a namespace that nobody else uses; it is deleted with all that is in it."""
    name = f"scenario-{secrets.token_hex(3)}"
    with namespaced(cluster, name):
        yield Space(cluster, name)
