"""The real Kueue as a process beside a test's API server, as tools/kueue.py makes it."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.apiserver import companion
from tests.integration.accounts import kubeconfig_of
from tools import kueue
from tools.kueue import NAMESPACE, made
from tools.ports import free_port
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.apiserver import ApiServer

_Object = dict[str, Any]

PATH = f"/apis/{kueue.API}"


@dataclass
class Kueue:
    """Kueue, as its administrator knows it."""

    server: ApiServer
    program: Path
    config: Path
    health: str
    kubeconfig: Path
    """With which the process works: the administrator's, unless it is given its own account."""
    _process: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start the process, and wait until its webhooks listen."""
        flags = (f"--kubeconfig={self.kubeconfig}", f"--config={self.config}")
        folder = self.server.kubeconfig.parent
        self._process.enter_context(companion(self.program, folder, *flags))
        eventually(self._is_ready, "Kueue is ready", 60)

    def use_its_account(self) -> None:
        """Have the process work with the rights that Kueue's own manifests give it."""
        folder = self.config.parent / "rights"
        folder.mkdir()
        base = os.path.relpath(kueue.rights(), folder)
        made = {"namePrefix": "kueue-", "namespace": NAMESPACE, "resources": [base]}
        (folder / "kustomization.yaml").write_text(json.dumps(made))
        self.server.kubectl("apply", "-k", str(folder))
        path = folder / "kubeconfig"
        self.kubeconfig = kubeconfig_of(self.server, NAMESPACE, "kueue-controller-manager", path)

    def stop(self) -> None:
        """End the process."""
        self._process.close()

    @contextmanager
    def configured(self, **changes: Any) -> Iterator[None]:
        """Have the process run with other settings for the time of the block."""
        before = self.config.read_text()
        try:
            self._restart(json.dumps({**json.loads(before), **changes}))
            yield
        finally:
            self._restart(before)

    def queue(
        self, name: str, namespace: str, *, cpus: str = "6", pool: str = "", **spec: Any
    ) -> None:
        """Make a ClusterQueue and a LocalQueue of it, both of one name, with CPUs of a pool."""
        pool = pool or name
        flavor = {
            "name": pool,
            "resources": [{"name": "cpu", "nominalQuota": cpus}],
        }
        cluster_queue = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
            **spec,
        }
        labels = {"nodeLabels": {"example.com/pool": pool}}
        self.server.apply(
            made("ResourceFlavor", pool, spec=labels),
            made("ClusterQueue", name, spec=cluster_queue),
            made("LocalQueue", name, namespace, spec={"clusterQueue": name}),
        )

    def set_quota(self, queue: str, cpus: str) -> None:
        """Give a ClusterQueue another quota."""
        found = self.server.request("GET", f"{PATH}/clusterqueues/{queue}").body["spec"]
        found["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpus
        self.change(queue, resourceGroups=found["resourceGroups"])

    def change(self, queue: str, **spec: Any) -> None:
        """Change a ClusterQueue."""
        self._patch(f"{PATH}/clusterqueues/{queue}", {"spec": spec})

    def priority(self, name: str, value: int) -> None:
        """Make a WorkloadPriorityClass."""
        self.server.apply(made("WorkloadPriorityClass", name, value=value))

    def workload(self, namespace: str, job: str) -> _Object:
        """Read the Workload of a job without its extensions, {} without one."""
        path = f"{PATH}/namespaces/{namespace}/workloads"
        selector = {"labelSelector": f"tftraining.dev/job={job},!tftraining.dev/extension"}
        found = self.server.request("GET", path, query=selector).body.get("items") or [{}]
        return dict(found[0])

    def set_active(self, namespace: str, workload: str, *, active: bool) -> None:
        """Stop or resume a Workload, as `kueuectl stop workload` does."""
        path = f"{PATH}/namespaces/{namespace}/workloads/{workload}"
        self._patch(path, {"spec": {"active": active}})

    def _restart(self, config: str) -> None:
        self.stop()
        self.config.write_text(config)
        self.start()

    def _patch(self, path: str, patch: _Object) -> None:
        kind = "application/merge-patch+json"
        answer = self.server.request("PATCH", path, patch, content_type=kind)
        assert answer.ok, answer.message

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://{self.health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def conditions(workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each condition of a Workload."""
    found = (workload.get("status") or {}).get("conditions") or []
    return {each["type"]: each["status"] for each in found}


def installed(server: ApiServer, program: Path) -> Kueue:
    """Install Kueue into an API server, ready to run."""
    folder = server.kubeconfig.parent / "kueue"
    folder.mkdir()
    files = kueue.certificates(folder)
    port, health, ca = free_port(), f"127.0.0.1:{free_port()}", files["ca.crt"]
    crds = kueue.crds(port, ca)
    listed = {"apiVersion": "v1", "kind": "List", "items": crds}
    server.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))
    plurals = [crd["spec"]["names"]["plural"] for crd in crds]
    eventually(
        lambda: all(server.request("GET", f"{PATH}/{plural}").ok for plural in plurals),
        "Kueue's API is served",
        60,
    )
    server.kubectl("create", "namespace", NAMESPACE)
    server.apply(kueue.secret(files), *kueue.webhooks(port, ca))
    config = folder / "config.yaml"
    config.write_text(json.dumps(kueue.configuration(port, health, str(folder))))
    return Kueue(server, program, config, health, server.kubeconfig)
