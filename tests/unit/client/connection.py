"""A connection of the client that keeps objects by their paths, and runs programs of pods here."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tftraining.cluster.cluster import Cluster
from tftraining.errors import AlreadyExistsError, NotFoundError, TFTrainingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.unit.builders import Raw

JOBS = "/apis/tftraining.dev/v1alpha1/namespaces/default/tftrainingjobs"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@dataclass
class Stored:
    """What an API server keeps, and one node whose pods begin as `pod_status` says."""

    objects: dict[str, Raw] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    pod_status: Raw = field(default_factory=lambda: READY)
    root: Path | None = None
    """Folder that takes the place of / in the pods."""
    made: list[Raw] = field(default_factory=list)
    """What was created, also if it is gone."""
    asked: list[str] = field(default_factory=list)
    """Each call, such as POST and a path; a dry run ends with ?dryRun."""
    refusals: dict[str, Exception] = field(default_factory=dict)
    """What calls raise, by what is noted of them."""
    namespace: str = "default"

    def cluster(self) -> Cluster:
        return Cluster(self)

    def add_job(self, raw: Raw) -> None:
        self.objects[f"{JOBS}/{raw['metadata']['name']}"] = raw

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "",
    ) -> Raw:
        assert content_type or method
        # With a body, an API server reads no options of a DELETE from the query.
        options = body if method == "DELETE" else query
        asked = f"{method} {path}" + ("?dryRun" if (options or {}).get("dryRun") else "")
        self.asked.append(asked)
        if asked in self.refusals:
            raise self.refusals[asked]
        if path == "/api/v1":
            kinds = (("ConfigMap", "configmaps", True), ("Namespace", "namespaces", False))
            fields = ("kind", "name", "namespaced")
            return {"resources": [dict(zip(fields, kind, strict=True)) for kind in kinds]}
        if method == "POST":
            return self._create(path, body, dry_run=bool((query or {}).get("dryRun")))
        if method == "PATCH":
            known = self.objects.get(path)
            if known is None and content_type == "application/merge-patch+json":
                raise NotFoundError(f"nothing at {path}")
            metadata = {**(known or {}).get("metadata", {}), **body.get("metadata", {})}
            patched = {**(known or {}), **body, "metadata": metadata}
            if not asked.endswith("?dryRun"):
                self.objects[path] = patched
            return patched
        if path in self.objects:
            if method == "DELETE" and not asked.endswith("?dryRun"):
                return self.objects.pop(path)
            return self.objects[path]
        if path in (JOBS, PODS, CONFIG_MAPS, "/api/v1/namespaces/default/events"):
            items = [each for key, each in self.objects.items() if key.startswith(f"{path}/")]
            return {"items": [each for each in items if _selected(each, query or {})]}
        raise NotFoundError(f"nothing at {path}")

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        assert query
        yield iter(self.logs[path.split("/")[-2]])

    @contextlib.contextmanager
    def execute(self, pod: str, container: str, command: Sequence[str]) -> Iterator[Local]:
        assert f"{PODS}/{pod}" in self.objects
        assert container
        _, *rest = [each.replace("/checkpoints", f"{self.root}/checkpoints") for each in command]
        local = Local([sys.executable, *rest])
        try:
            yield local
        finally:
            local.close()

    def _create(self, path: str, body: Raw, *, dry_run: bool) -> Raw:
        name = body["metadata"]["name"]
        if f"{path}/{name}" in self.objects:
            raise AlreadyExistsError(f"{name} exists")
        given = {"namespace": "default", "uid": f"uid-{len(self.objects)}", "generation": 1}
        made = {**body, "metadata": {**given, **body["metadata"]}}
        if path == PODS:
            made["status"] = self.pod_status
        if not dry_run:
            self.made.append(made)
            self.objects[f"{path}/{name}"] = made
        return made


class Local:
    """A program of a pod, as a process of this computer."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.granted = 0

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self.granted += len(data)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def read(self) -> bytes:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if found := self._process.stdout.read1(32768):
            return found
        if self._process.wait():
            raise TFTrainingError(self._process.stderr.read().decode().strip())
        return b""

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        self._process.wait()


def _selected(found: Raw, query: Mapping[str, str]) -> bool:
    name, _, value = query.get("labelSelector", "").partition("=")
    labels = found["metadata"].get("labels") or {}
    return not name or labels.get(name) == value
