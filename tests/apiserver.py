"""A real kube-apiserver and etcd as processes on loopback, for tests of whatever talks to them.

No scheduler, controllers or kubelet: pods stay Pending until a test writes their status, deleted
namespaces stay Terminating, owned objects are not collected. `collecting` and `working` add some.
ServiceAccount admission is off, as nobody would create the account that pods need; all other
default admission, RBAC and PodSecurity included, is on.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAMS = ("etcd", "kube-apiserver", "kubectl")

_DATA = "etcd"
_START_SECONDS = 45
_ATTEMPTS = 3


class KubectlError(Exception):
    """kubectl ended with another code than 0; the text is what it said."""


class StartError(Exception):
    """The API server cannot be had; where a process spoke, the text ends with its log."""


class EndedError(StartError):
    """A process ended at once, as it does when its port was taken in the meantime."""


@dataclass(frozen=True, slots=True)
class Response:
    """What the API server answered."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        return self.status < 300

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server and its administrator's ways to talk to it."""

    url: str
    kubeconfig: Path
    """Of a user in system:masters; holds a bearer token and the server's certificate."""
    token: str
    ca: Path
    _kubectl: Path
    _pool: urllib3.PoolManager
    _processes: _Processes

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl and return its standard output. Raises KubectlError with what it said."""
        home = self.kubeconfig.parent
        done = subprocess.run(
            [self._kubectl, *args],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(home), "PATH": os.environ["PATH"]},
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        token: str | None = None,
    ) -> Response:
        """Make one raw call, as the administrator or with another token."""
        answer = self._pool.request(
            method,
            f"{self.url}{path}" + (f"?{urlencode(query)}" if query else ""),
            body=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token or self.token}",
                "Content-Type": content_type,
            },
        )
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return Response(answer.status, answer.json() if is_json else {"message": str(answer.data)})

    def merge(self, path: str, patch: object, *, query: Mapping[str, str] | None = None) -> None:
        """Merge a patch into an object or a subresource; fail with what the server says to it."""
        kind = "application/merge-patch+json"
        answer = self.request("PATCH", path, patch, query=query, content_type=kind)
        assert answer.ok, answer.message

    def watch(
        self, path: str, resource_version: str, seconds: int, *, selector: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield the watch events since a resource version; end after so many seconds."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            "labelSelector": selector,
        }
        answer = self._pool.request(
            "GET",
            f"{self.url}{path}?{urlencode(query)}",
            headers={"Authorization": f"Bearer {self.token}"},
            preload_content=False,
        )
        try:
            for line in answer:
                yield json.loads(line)
        finally:
            answer.close()

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects with kubectl, as a user does."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    @contextmanager
    def stopped(self) -> Iterator[Path]:
        """End both processes, and start them again afterwards; yield the folder of etcd's data."""
        self._processes.end()
        yield self._processes.folder / _DATA
        self._processes.start()
        _wait(self)

    def serve_crd(self, manifest: Path, *flags: str) -> str:
        """Apply a CustomResourceDefinition as a user does, wait until it is served, name it."""
        applied = self.kubectl("apply", *flags, "-f", str(manifest), "-o", "name").strip()
        name = applied.partition("/")[2]
        self.wait_for_crd(name)
        return name

    def wait_for_crd(self, name: str) -> None:
        """Wait until a CustomResourceDefinition that was just created is served."""
        deadline = time.monotonic() + _START_SECONDS
        # kubectl wait fails on an object that has no conditions at all yet.
        while '"Established"' not in self.kubectl("get", "crd", name, "-o", "json"):
            if time.monotonic() > deadline:
                raise StartError(f"{name} is not established within {_START_SECONDS} s")
            time.sleep(0.05)
        self.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=20s")
        # Its storage comes a moment later: until then calls are answered with 429, which kubectl
        # repeats and others may not.
        self.kubectl("get", name, "--all-namespaces")


class _Processes:
    """etcd and the API server, which are started in this order."""

    def __init__(self, folder: Path, commands: Mapping[Path, Sequence[str]]) -> None:
        self.folder = folder
        self._commands = commands
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for program, flags in self._commands.items():
            self._running.append(_spawn(program, flags, self.folder / f"{program.name}.log"))

    def end(self) -> None:
        _end(self._running)
        self._running = []

    @property
    def any_ended(self) -> bool:
        return any(process.poll() is not None for process in self._running)


@contextmanager
def running(programs: Mapping[str, Path], *flags: str) -> Iterator[ApiServer]:
    """Start both processes, wait until they serve, and end them whatever happens.

    `flags` are further ones of the API server.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        with tempfile.TemporaryDirectory(prefix="apiserver-") as folder:
            server = _prepared(programs, Path(folder), flags)
            try:
                server._processes.start()
                try:
                    _wait(server)
                except EndedError:
                    if attempt == _ATTEMPTS:
                        raise
                    continue
                yield server
                return
            finally:
                server._processes.end()


@contextmanager
def collecting(program: Path, server: ApiServer, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the garbage collector, which is a part of kube-controller-manager.

    It learns of a resource that comes later only after half a minute: serve CRDs first.
    """
    only = "--controllers=garbage-collector-controller"
    with working(program, server, only, *flags) as process:
        yield process


@contextmanager
def working(program: Path, server: ApiServer, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run another component of Kubernetes: controllers or a scheduler."""
    common = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--secure-port=0")
    with companion(program, server.kubeconfig.parent, *common, *flags) as process:
        yield process


@contextmanager
def companion(program: Path, folder: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run any program beside the API server; its log lies in `folder`.

    Raises EndedError if it has ended by itself.
    """
    process = _spawn(program, flags, folder / f"{program.name}.log")
    try:
        yield process
        if process.poll() is not None:
            raise EndedError(f"{program.name} has ended\n{_logs(folder)}")
    finally:
        _end([process])


def _prepared(programs: Mapping[str, Path], folder: Path, flags: Sequence[str]) -> ApiServer:
    etcd_port, port = free_port(), free_port()
    token = secrets.token_hex(16)
    key, public = certificate(folder)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    commands = {
        programs["etcd"]: [
            f"--data-dir={folder / _DATA}",
            "--unsafe-no-fsync",
            # Ten thousand jobs do not fit into the default of 2 GiB.
            f"--quota-backend-bytes={8 * 2**30}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
        ],
        programs["kube-apiserver"]: [
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
            f"--tls-cert-file={public}",
            f"--tls-private-key-file={key}",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={public}",
            "--service-cluster-ip-range=198.19.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            # The endpoints of the Service `kubernetes` may not be on loopback.
            "--endpoint-reconciler-type=none",
            *flags,
        ],
    }
    server = ApiServer(
        url=f"https://127.0.0.1:{port}",
        kubeconfig=folder / "kubeconfig",
        token=token,
        ca=public,
        _kubectl=programs["kubectl"],
        _pool=urllib3.PoolManager(ca_certs=str(public), maxsize=8, retries=False),
        _processes=_Processes(folder, commands),
    )
    server.kubeconfig.write_text(json.dumps(_kubeconfig(server)))
    return server


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a key and a self-signed certificate of loopback, for TLS and ServiceAccount tokens."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise StartError("openssl is needed to make the API server's certificate")
    key, public = folder / "server.key", folder / "server.crt"
    options: dict[str, str | Path] = {
        "-newkey": "ec",
        "-pkeyopt": "ec_paramgen_curve:prime256v1",
        "-subj": "/CN=kube-apiserver",
        "-days": "2",
        "-keyout": key,
        "-out": public,
    }
    extensions = (
        "subjectAltName=IP:127.0.0.1,DNS:localhost",
        "keyUsage=critical,digitalSignature,keyCertSign",
    )
    command: list[str | Path] = [openssl, "req", "-x509", "-nodes"]
    for option, value in options.items():
        command += [option, value]
    for extension in extensions:
        command += ["-addext", extension]
    subprocess.run(command, check=True, capture_output=True)
    return key, public


def _spawn(program: Path, flags: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    # Where Linux offers it, the process dies with the tests even if these are killed.
    setpriv = shutil.which("setpriv")
    guard = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    with log.open("wb") as out:
        # In a group of its own: Ctrl-C ends the tests, and then their fixtures still need it.
        return subprocess.Popen(
            [*guard, program, *flags],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            process_group=0,
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    # Nothing is worth saving, and open watches would make a graceful end take a minute.
    for process in reversed(processes):
        process.kill()
        process.wait()


def _wait(server: ApiServer) -> None:
    deadline = time.monotonic() + _START_SECONDS
    folder = server._processes.folder
    while True:
        if server._processes.any_ended:
            raise EndedError(f"a process ended at once\n{_logs(folder)}")
        try:
            ready = all(
                server.request("GET", path).ok for path in ("/readyz", "/api/v1/namespaces/default")
            )
        except urllib3.exceptions.HTTPError:
            ready = False
        if ready:
            return
        if time.monotonic() > deadline:
            raise StartError(f"not ready within {_START_SECONDS} s\n{_logs(folder)}")
        time.sleep(0.1)


def _logs(folder: Path) -> str:
    tails = (
        f"{log.name}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        for log in sorted(folder.glob("*.log"))
    )
    return "\n".join(tails)


def _kubeconfig(server: ApiServer) -> dict[str, Any]:
    cluster = {"server": server.url, "certificate-authority": str(server.ca)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": server.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }
