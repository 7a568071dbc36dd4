"""The version before this one, and jobs in every state that have to outlive a change of version."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.conftest import ROOT
from tests.integration.jobs import GROUP_PATH, Namespace, manifest
from tools.waiting import eventually

_Object = dict[str, Any]

BEFORE = "be22b54350ea09d12aa2fe7166298eded3a341bd"
"""The last commit of the version before this one."""

_REPORT = {
    "version": 1,
    "role": "chief",
    "phase": "training",
    # All of them, so that no version ever calls the training stalled.
    "step": 3000,
    "totalSteps": 3000,
    "stepsPerSecond": 41.5,
    "secondsSinceStep": 0.2,
    "resumedStep": None,
    "waitingFor": [],
    "unreachable": [],
    "metrics": {"loss": 0.1742},
    "lastCheckpoint": {"step": 1000, "path": "/c/ckpt-1000", "time": "2026-01-02T03:04:05Z"},
}
_ROLES = ("chief", "worker", "ps", "evaluator")
_PATIENCE = {"startupDeadlineSeconds": 3600, "evaluatorGraceSeconds": 3600}
_CHECKPOINT = {"persistentVolumeClaim": {"claimName": "training"}}
_NO_ADDRESS = "198.18.0.9"
_LONG_AGO = "2026-01-02T03:04:05Z"

_AT_ONCE = 8
"""Calls at once, as many as an ApiServer has connections."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the operator: its code, its CRD, and what its status calls some fields."""

    code: Path
    crds: Path
    excluded: str
    unavailable: str


THIS = Version(ROOT / "operator", ROOT / "crds", "excludedWorkers", "unavailableWorkers")


def version_before(folder: Path) -> Version:
    """Unpack the version before this one out of the repository's history, or skip the test."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed: the version before this one cannot be read")
    archive = folder / "before.tar"
    command = [git, "archive", f"--output={archive}", BEFORE, "operator", "crds"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(
            f"commit {BEFORE[:7]}, the version before this one, cannot be read; a shallow clone "
            f"lacks it (git fetch --unshallow): {done.stderr.strip()}"
        )
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return Version(folder / "operator", folder / "crds", "leftOutWorkers", "awayWorkers")


@contextmanager
def chief_reports() -> Iterator[str]:
    """Serve a training chief's /progress on a loopback address of its own; yield the address."""

    class Progress(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(_REPORT).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = _listen(Progress)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield str(server.server_address[0])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _listen(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    # The port is the contract's; all of 127.0.0.0/8 is this computer's.
    for number in range(1, 255):
        try:
            return ThreadingHTTPServer((f"127.83.0.{number}", 8080), handler)
        except OSError:
            continue
    raise AssertionError("port 8080 is in use on all addresses from 127.83.0.1 to 127.83.0.254")


class Snapshot(NamedTuple):
    """What a change of the operator's version must leave as it is."""

    state: str
    accepted: str
    attempt: int
    restarts: int
    excluded_workers: list[int]
    pods: dict[str, str]
    """uids by name."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Jobs of a namespace, each in another state, which its name tells after a prefix."""

    space: Namespace
    version: Version
    """The version of the operator that runs when the jobs are created."""
    prefix: str = ""
    address: str = _NO_ADDRESS
    """Where the chief of a training job reports its progress; by default nowhere."""

    def create(self, *states: str, **spec: Any) -> None:
        """Create a job in each of these states, or in every one; keywords replace spec fields."""
        makers: dict[str, Callable[..., None]] = {
            "starting": self._starting,
            "training": self._training,
            "excluded": self._excluded,
            "gang": self._gang,
            "restarting": self._restarting,
            "suspended": self._suspended,
            "evaluating": self._evaluating,
            "succeeded": self._succeeded,
            "failed": self._failed,
            "rejected": self._rejected,
        }
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for made in [
                pool.submit(makers[state], f"{self.prefix}{state}", **spec)
                for state in states or makers
            ]:
                made.result()

    def _starting(self, name: str, **spec: Any) -> None:
        self._create(name, **spec)

    def _training(self, name: str, **spec: Any) -> None:
        self._run(name, address=self.address, **spec)
        if self.address != _NO_ADDRESS:
            eventually(lambda: self._status(name, "progress"), "the chief's progress is stored")

    def _excluded(self, name: str, **spec: Any) -> None:
        self._run(name, worker={"replicas": 3, "minReplicas": 2}, **spec)
        self.space.delete_pod(f"{name}-worker-1")
        unavailable, excluded = self.version.unavailable, self.version.excluded
        eventually(lambda: self._status(name, unavailable), "worker-1 is unavailable")
        # It would be excluded after half a minute of this.
        self.space.patch_status(name, {unavailable: [{"index": 1, "since": _LONG_AGO}]})
        eventually(lambda: self._status(name, excluded) == [1], "worker-1 is excluded")
        chief = f"{name}-chief-0"
        eventually(
            lambda: (
                (pod := self.space.pods().get(chief)) is not None
                and f"{name}-worker-1." not in json.dumps(pod)
            ),
            "a chief that does without worker-1",
        )
        self.space.run(chief)
        self.space.wait_for("Running", name=name)

    def _gang(self, name: str, **spec: Any) -> None:
        self._run(name, strategy="MultiWorkerMirrored", ps=None, **spec)

    def _restarting(self, name: str, **spec: Any) -> None:
        self._run(name, **spec)
        chief = f"{name}-chief-0"
        self.space.end(chief, 75, "a parameter server was lost")
        eventually(lambda: self._status(name, "restarts") == 1, "a counted restart")
        eventually(lambda: self.space.attempt(chief) == "1", "the second chief")

    def _suspended(self, name: str, **spec: Any) -> None:
        self._run(name, **spec)
        patch = json.dumps({"spec": {"runPolicy": {"suspend": True}}})
        self.space.kubectl("patch", "tftj", name, "--type=merge", "-p", patch)
        self.space.wait_for("Suspended", name=name)
        eventually(lambda: not self._pods(name), "no pods")

    def _evaluating(self, name: str, **spec: Any) -> None:
        self._run(name, evaluator={}, checkpoint=_CHECKPOINT, **spec)
        self.space.end(f"{name}-chief-0", 0, json.dumps({**_REPORT, "phase": "done"}))
        eventually(lambda: self._status(name, "state") == "Evaluating", "it evaluates")

    def _succeeded(self, name: str, **spec: Any) -> None:
        self._run(name, **spec)
        self.space.end(f"{name}-chief-0", 0, json.dumps({**_REPORT, "phase": "done"}))
        self.space.wait_for("Succeeded", name=name)
        eventually(lambda: self._pods(name) == [f"{name}-chief-0"], "the servers are deleted")

    def _failed(self, name: str, **spec: Any) -> None:
        self._run(name, **spec)
        self.space.end(f"{name}-chief-0", 64, "--task: no module named examples.mnst")
        self.space.wait_for("Failed", name=name)
        eventually(lambda: len(self._pods(name)) == 1, "the servers are deleted")

    def _rejected(self, name: str, **spec: Any) -> None:
        port = {"containerPort": 80, "protocol": "Carrier pigeon"}
        template = {"spec": {"containers": [{"name": "tensorflow", "ports": [port]}]}}
        self._post(name, template=template, **spec)
        self.space.wait_for("Accepted", "False", name=name)

    def _post(self, name: str, **spec: Any) -> None:
        job = manifest(name, **spec)
        job["spec"] = {k: v for k, v in job["spec"].items() if v is not None}
        job["spec"].setdefault("runPolicy", _PATIENCE)
        path = f"{GROUP_PATH}/namespaces/{self.space.name}/tftrainingjobs"
        answer = self.space.server.request("POST", path, job)
        assert answer.ok, answer.message

    def _create(self, name: str, **spec: Any) -> None:
        """Create a job and wait for its pods."""
        self._post(name, **spec)
        stored = self.space.job(name)["spec"]
        wanted = sum(stored.get(role, {}).get("replicas", 0) for role in _ROLES)
        eventually(lambda: len(self._pods(name)) == wanted, f"{name} has {wanted} pods")

    def _run(self, name: str, *, address: str = _NO_ADDRESS, **spec: Any) -> None:
        """Create a job and let it run."""
        self._create(name, **spec)
        for pod in sorted(self._pods(name), key=lambda pod: "-chief-" in pod):
            self.space.run(pod, ip=address if "-chief-" in pod else _NO_ADDRESS)
        self.space.wait_for("Running", name=name)

    def _pods(self, name: str) -> list[str]:
        return [pod for pod in self.space.pods() if _owner(pod) == name]

    def _status(self, name: str, field: str) -> Any:
        return self.space.status(name).get(field)


def snapshots(space: Namespace, version: Version) -> dict[str, Snapshot]:
    """Return what is to stay of every job of a namespace, by name."""
    path = f"{GROUP_PATH}/namespaces/{space.name}/tftrainingjobs"
    jobs = space.server.request("GET", path).body["items"]
    pods = space.pods()
    return {
        job["metadata"]["name"]: _snapshot(job["metadata"]["name"], job["status"], pods, version)
        for job in jobs
    }


def _snapshot(name: str, status: _Object, pods: dict[str, _Object], version: Version) -> Snapshot:
    accepted = (c["status"] for c in status["conditions"] if c["type"] == "Accepted")
    return Snapshot(
        state=status["state"],
        accepted=next(accepted, ""),
        attempt=status["attempt"],
        restarts=status["restarts"],
        excluded_workers=status.get(version.excluded, []),
        pods={pod: raw["metadata"]["uid"] for pod, raw in pods.items() if _owner(pod) == name},
    )


def _owner(pod: str) -> str:
    return pod.rsplit("-", 2)[0]
