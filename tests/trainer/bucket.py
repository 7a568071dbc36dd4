"""A bucket of a real object store on loopback, for processes that train with gs:// locations.

TensorFlow has no setting for the host of its object store. But its HTTP client asks a proxy and
trusts a certificate that the environment names: so the proxy leads Google's host names to
fake-gcs-server. Nothing outside these processes changes, and nothing leaves the machine.
"""

import http.client
import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import free_port, until
from relay import Relay

HOSTS = ("storage.googleapis.com", "www.googleapis.com")
NAME = "models"


@dataclass(frozen=True)
class Bucket:
    """An empty bucket `models`."""

    env: Mapping[str, str]
    """Leads a process to it."""
    port: int

    def objects(self, prefix: str) -> list[str]:
        """The names of its objects, as the server tells them."""
        url = f"http://127.0.0.1:{self.port}/storage/v1/b/{NAME}/o?prefix={prefix}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return sorted(each["name"] for each in json.load(answer).get("items", []))


@contextmanager
def running(program: Path, folder: Path) -> Iterator[Bucket]:
    """Start the server; `folder` gets its certificate and its log."""
    certificate, key = _certificate(folder)
    port, plain_port = free_port(), free_port()
    command: list[str | Path] = [
        program,
        *("-scheme=both", "-host=127.0.0.1", f"-port={port}", f"-port-http={plain_port}"),
        *(f"-cert-location={certificate}", f"-private-key-location={key}"),
        *("-backend=memory", f"-external-url=https://{HOSTS[0]}"),
    ]
    with (folder / "bucket.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    proxy = Relay(port, admits=_admits)
    try:
        until(lambda: _create(plain_port), "the object store answers", patience=30)
        yield Bucket(
            {
                "https_proxy": f"http://127.0.0.1:{proxy.port}",
                # The proxy is not for gRPC, which would use it as well.
                "no_proxy": "localhost,127.0.0.1",
                "CURL_CA_BUNDLE": str(certificate),
                "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
            },
            plain_port,
        )
    finally:
        proxy.close()
        server.terminate()
        server.wait()


def _admits(here: socket.socket) -> bool:
    """Answer as an HTTP proxy: CONNECT to Google's hosts is granted."""
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = here.recv(4096)
        if not chunk:
            return False
        head += chunk
    granted = head.split()[1].decode().partition(":")[0] in HOSTS
    here.sendall(b"HTTP/1.1 %s\r\n\r\n" % (b"200 OK" if granted else b"403 Forbidden"))
    return granted


def _certificate(folder: Path) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    assert openssl, "openssl is needed to make the certificate of the object store"
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ",".join(f"DNS:{host}" for host in HOSTS)
    command = [openssl, "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2"]
    command += ["-subj", "/CN=object-store", "-addext", f"subjectAltName={names}"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def _create(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", "/storage/v1/b?project=tests", f'{{"name":"{NAME}"}}', headers)
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
