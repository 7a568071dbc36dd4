"""A bucket of a real object store on loopback, for processes that train with gs:// locations.

TensorFlow has no setting for the host of its object store. But its HTTP client asks a proxy and
trusts a certificate that the environment names: so a proxy here answers for Google's host names,
and asks fake-gcs-server. Nothing outside these processes changes, and nothing leaves the machine.
"""

import http.client
import http.server
import json
import shutil
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import until

from tools.ports import free_port

HOSTS = ("storage.googleapis.com", "www.googleapis.com")
NAME = "models"

_DROPPED = ("Transfer-Encoding", "Content-Length", "Connection")


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
    port = free_port()
    command: list[str | Path] = [program, "-scheme=http", "-host=127.0.0.1", f"-port={port}"]
    command += ["-backend=memory", f"-external-url=https://{HOSTS[0]}"]
    with (folder / "bucket.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    proxy = Proxy(port, certificate, key)
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
    thread.start()
    try:
        until(lambda: _create(port), "the object store answers", patience=30)
        yield Bucket(
            {
                "https_proxy": f"http://127.0.0.1:{proxy.server_address[1]}",
                # gRPC would use the proxy as well.
                "no_proxy": "localhost,127.0.0.1",
                "CURL_CA_BUNDLE": str(certificate),
                "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
            },
            port,
        )
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
        server.terminate()
        server.wait()


class Proxy(http.server.ThreadingHTTPServer):
    """An HTTP proxy whose TLS ends here, with a certificate in the names of HOSTS."""

    daemon_threads = True

    def __init__(self, port: int, certificate: Path, key: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.port = port
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(certificate, key)

    def handle_error(self, *_: object) -> None:
        """A process that is killed ends its connections as it likes."""


class _Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_CONNECT(self) -> None:
        if self.path.partition(":")[0] not in HOSTS:
            self.send_error(http.HTTPStatus.FORBIDDEN)
            return
        self.send_response(http.HTTPStatus.OK)
        self.end_headers()
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        # Where TLS began, this is another socket than the server's, which closes only its own.
        self.connection.close()

    def _pass_on(self) -> None:
        # TensorFlow says identity, which Go's HTTP server refuses; or chunked beside a length.
        headers = {name: text for name, text in self.headers.items() if name not in _DROPPED}
        headers["X-Forwarded-Proto"] = "https"
        body = self._body()
        asked = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            asked.request(self.command, self.path, body, headers)
            answer = asked.getresponse()
            content = answer.read()
        finally:
            asked.close()
        self.send_response_only(answer.status, answer.reason)
        for name, text in answer.getheaders():
            if name not in _DROPPED:
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - as the base class calls them

    def log_message(self, *_: object) -> None:
        """Say nothing; the server logs each request."""


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
