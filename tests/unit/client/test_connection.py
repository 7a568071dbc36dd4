"""The connection to an API server, over real sockets, whatever that or a proxy answers."""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import threading
from typing import TYPE_CHECKING

import pytest
import yaml
from kubernetes import client
from tftraining.cluster import connection
from tftraining.cluster.connection import Connection
from tftraining.errors import InputError, NotFoundError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def answering(answer: bytes, *, silent: bool = False) -> Iterator[Connection]:
    """Connect to a server that gives one answer, and then says nothing more or hangs up."""
    over = threading.Event()
    asked: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline().strip():
                asked.append(line.decode())
            self.wfile.write(answer)
            if silent:
                over.wait()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        configuration = client.Configuration()
        configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
        with client.ApiClient(configuration=configuration) as api:
            found = Connection(api, "default")
            found.port = server.server_address[1]  # type: ignore[attr-defined]
            found.asked = asked  # type: ignore[attr-defined]
            yield found
        over.set()
        server.shutdown()


def http(body: bytes, *, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return an answer; another `length` than that of the body says that more is to come."""
    length = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n".encode() + body


def test_an_object_is_returned() -> None:
    with answering(http(b'{"items": []}')) as calls:
        assert calls.call("GET", "/x") == {"items": []}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(http(b'{"items": [', length=999), "broke: Connection broken", id="cut off"),
        pytest.param(http(b'{"items": ['), "no JSON object", id="cut off without a length"),
        pytest.param(http(b"<html>Log in</html>"), "no JSON object: <html>Log in", id="a proxy"),
        pytest.param(http(b'"ok"'), "no JSON object", id="another type"),
        pytest.param(http(b"\xff\xfe"), "no JSON object", id="no text"),
        pytest.param(http(b"{", status="404 Not Found", length=99), "broke", id="an error"),
        pytest.param(b"", "cannot reach the cluster", id="nothing"),
    ],
)
def test_an_answer_that_is_not_whole_can_be_asked_for_again(answer: bytes, told: str) -> None:
    with answering(answer) as calls, pytest.raises(UnreachableError, match=told):
        calls.call("GET", "/x")


def test_an_answer_that_stops_in_the_middle_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Connection._send.__kwdefaults__, "silence", 0.2)
    with (
        answering(http(b"{", length=99), silent=True) as calls,
        pytest.raises(UnreachableError, match=r"broke: .*Read timed out"),
    ):
        calls.call("GET", "/x")


def test_who_does_not_answer_is_asked_once(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Connection._send.__kwdefaults__, "silence", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        clusters = [{"name": name, "cluster": {"server": address}} for name in ("a", "b")]
        kubeconfig.write_text(a_kubeconfig(clusters=clusters))
        with pytest.raises(UnreachableError, match="Read timed out"):
            Connection.open(None, "near").call("GET", "/x")
        server.accept()[0].close()
        with pytest.raises(TimeoutError):
            server.accept()


def test_what_is_refused_is_told_in_the_words_of_the_api_server() -> None:
    body = b'{"kind": "Status", "message": "pods \\"x\\" not found"}'
    with (
        answering(http(body, status="404 Not Found")) as calls,
        pytest.raises(NotFoundError, match='pods "x" not found'),
    ):
        calls.call("GET", "/x")


def test_a_stream_that_is_cut_off_can_be_opened_again() -> None:
    with (
        answering(http(b"one\ntwo\n", length=99)) as calls,
        pytest.raises(UnreachableError, match="broke"),
        calls.lines("/x", {}) as lines,
    ):
        list(lines)


# ---- the kubeconfig -----------------------------------------------------------------------------


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's kubeconfig; its context `far` has a namespace."""
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def a_kubeconfig(**others: object) -> str:
    clusters = [{"name": name, "cluster": {"server": f"http://{name}:1"}} for name in ("a", "b")]
    contexts = [
        {"name": "near", "context": {"cluster": "a", "user": ""}},
        {"name": "far", "context": {"cluster": "b", "user": "", "namespace": "vision"}},
    ]
    document = {"apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts}
    return yaml.safe_dump({**document, **others})


@pytest.mark.parametrize("current", [{}, {"current-context": ""}, {"current-context": "near"}])
def test_a_context_that_is_named_needs_no_current_one(
    kubeconfig: Path, current: dict[str, str]
) -> None:
    kubeconfig.write_text(a_kubeconfig(**current))
    assert Connection.open(None, "far").namespace == "vision"
    assert Connection.open("speech", "far").namespace == "speech"
    assert Connection.open(None, "near").namespace == "default"


def test_a_current_context_that_is_gone_is_no_obstacle(kubeconfig: Path) -> None:
    kubeconfig.write_text(a_kubeconfig(**{"current-context": "deleted"}))
    assert Connection.open(None, "far").namespace == "vision"
    with pytest.raises(InputError, match=r"no cluster to talk to: .*choose a context of it"):
        Connection.open(None, None)


def test_without_any_context_it_says_what_to_do(kubeconfig: Path) -> None:
    kubeconfig.write_text(a_kubeconfig())
    with pytest.raises(InputError, match=r"no cluster to talk to: .*set KUBECONFIG, or choose a"):
        Connection.open(None, None)


@pytest.mark.parametrize("current", [{}, {"current-context": "near"}])
def test_a_context_that_does_not_exist_is_answered_with_those_that_do(
    kubeconfig: Path, current: dict[str, str]
) -> None:
    kubeconfig.write_text(a_kubeconfig(**current))
    with pytest.raises(InputError, match="no context fra in the kubeconfig; it has near, far"):
        Connection.open(None, "fra")


def test_no_kubeconfig_is_told(kubeconfig: Path) -> None:
    assert not kubeconfig.exists()
    for context in (None, "far"):
        with pytest.raises(
            InputError, match=f"no cluster to talk to: no kubeconfig {kubeconfig}; "
        ):
            Connection.open(None, context)


def test_an_empty_kubeconfig_is_told(kubeconfig: Path) -> None:
    kubeconfig.touch()
    for context in (None, "far"):
        with pytest.raises(InputError, match=f"no cluster to talk to: .*{kubeconfig} file is em"):
            Connection.open(None, context)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("clusters: [", id="no YAML"),
        pytest.param("just text", id="no object"),
        pytest.param("contexts: [{name: near}]\ncurrent-context: near\n", id="an empty context"),
        pytest.param(
            a_kubeconfig(
                clusters=[
                    {
                        "name": "a",
                        "cluster": {"server": "https://a", "certificate-authority-data": "abc"},
                    }
                ],
                **{"current-context": "near"},
            ),
            id="a certificate that is no base64",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_read_is_named(kubeconfig: Path, text: str) -> None:
    kubeconfig.write_text(text)
    for context in (None, "near"):
        with pytest.raises(InputError, match=str(kubeconfig)):
            Connection.open(None, context)


def test_a_folder_is_no_kubeconfig(kubeconfig: Path) -> None:
    kubeconfig.mkdir()
    with pytest.raises(InputError, match=str(kubeconfig)):
        Connection.open(None, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(None, None, id="no kubeconfig"),
        pytest.param(a_kubeconfig(), None, id="no current context"),
        pytest.param("", None, id="an empty kubeconfig"),
        pytest.param(
            a_kubeconfig(**{"current-context": "deleted"}),
            "no cluster to talk to: .*deleted",
            id="a current context that is gone",
        ),
        pytest.param(
            a_kubeconfig(clusters=[], **{"current-context": "near"}),
            "no cluster to talk to: ",
            id="one whose cluster is gone",
        ),
    ],
)
def test_the_cluster_of_the_own_pod_is_not_taken_for_that_of_the_kubeconfig(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, told: str | None
) -> None:
    """As by kubectl: jobs would go to another cluster than the one that is meant."""
    monkeypatch.setattr(connection, "_load_own_pod", lambda _configuration: True)
    if text is not None:
        kubeconfig.write_text(text)
    if told is None:
        assert Connection.open(None, None).namespace == "default"
        return
    with pytest.raises(InputError, match=told):
        Connection.open(None, None)


def test_the_kubeconfig_is_that_which_the_environment_names_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was set after the import, as in a notebook; an empty name is none."""
    (tmp_path / ".kube").mkdir()
    own, other = tmp_path / ".kube/config", tmp_path / "other"
    own.write_text(a_kubeconfig(**{"current-context": "near"}))
    other.write_text(a_kubeconfig(**{"current-context": "far"}))
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, namespace in ((str(other), "vision"), ("", "default"), (str(other), "vision")):
        monkeypatch.setenv("KUBECONFIG", given)
        assert Connection.open(None, None).namespace == namespace
    monkeypatch.delenv("KUBECONFIG")
    assert Connection.open(None, None).namespace == "default"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_api_server_of_this_computer_is_reached_without_the_proxy_of_the_environment(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """As by kubectl: that of kind, or a tunnel, which a proxy elsewhere does not reach."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with answering(http(b'{"items": []}')) as calls:
        port = calls.port  # type: ignore[attr-defined]
        cluster = {"server": f"http://{host}:{port}"}
        for given, told in (
            (cluster, None),
            ({**cluster, "proxy-url": "http://127.0.0.1:10"}, "connect to proxy: .*refused; is"),
            ({"server": "http://a:1"}, "connect to proxy: .*refused; is"),
        ):
            clusters = [{"name": "a", "cluster": given}]
            kubeconfig.write_text(a_kubeconfig(clusters=clusters, **{"current-context": "near"}))
            found = Connection.open(None, None)
            if told is None:
                assert found.call("GET", "/x") == {"items": []}
                continue
            with pytest.raises(UnreachableError, match=told):
                found.call("GET", "/x")


@pytest.mark.parametrize(
    ("first", "second", "port"),
    [
        pytest.param("far", "near", 2, id="both say one"),
        pytest.param("", "far", 2, id="the first says none"),
        pytest.param("near", "deleted", 1, id="that of the second is gone"),
    ],
)
def test_the_first_of_several_kubeconfigs_says_which_cluster_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str, port: int
) -> None:
    """As by kubectl: jobs would be changed in another cluster than the one that it shows."""
    addresses = {"a": "http://127.0.0.1:1", "b": "http://127.0.0.1:2"}
    clusters = [{"name": name, "cluster": {"server": url}} for name, url in addresses.items()]
    files = [tmp_path / "one", tmp_path / "two"]
    for file, current in zip(files, (first, second), strict=True):
        file.write_text(a_kubeconfig(clusters=clusters, **{"current-context": current}))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    found = Connection.open(None, None)
    assert found.namespace == ("vision" if port == 2 else "default")
    with pytest.raises(UnreachableError, match=f"the cluster at http://127.0.0.1:{port}: "):
        found.call("GET", "/x")


IMPERSONATION = {
    "as": "jos\u00e9",
    "as-uid": "7",
    "as-groups": ["vision", "speech"],
    "as-user-extra": {"example.com/team": ["a", "b"]},
}


def of_jane(kubeconfig: Path, server: str, **user: object) -> None:
    users = [{"name": "jane", "user": {"token": "x", **user}}]
    clusters = [{"name": "a", "cluster": {"server": server}}]
    contexts = [{"name": "near", "context": {"cluster": "a", "user": "jane"}}]
    given = {"users": users, "clusters": clusters, "contexts": contexts}
    kubeconfig.write_text(a_kubeconfig(**given, **{"current-context": "near"}))


def test_who_acts_as_somebody_else_does_so_in_every_call(kubeconfig: Path) -> None:
    """As by kubectl: the rights of the user may be greater."""
    with answering(http(b'{"items": []}')) as calls:
        of_jane(kubeconfig, f"http://127.0.0.1:{calls.port}", **IMPERSONATION)  # type: ignore[attr-defined]
        for namespace in (None, "vision"):
            # A new connection each time: this server hangs up after an answer.
            found = Connection.open(None, None).within(namespace)
            calls.asked.clear()  # type: ignore[attr-defined]
            found.call("GET", "/x")
            headers = [line for line in calls.asked if line.startswith("Impersonate")]  # type: ignore[attr-defined]
            assert headers == [
                "Impersonate-User: jos\u00e9",
                "Impersonate-Uid: 7",
                "Impersonate-Group: vision",
                "Impersonate-Group: speech",
                "Impersonate-Extra-example.com%2Fteam: a",
                "Impersonate-Extra-example.com%2Fteam: b",
            ]
            assert "authorization: Bearer x" in calls.asked  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="as such tftj cannot run a program in a pod"):
            found.execute("pod", "container", ["x"])


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ({"as-groups": ["vision"]}, "user jane of context near has as-groups but not as"),
        ({"as": "jane", "as-groups": "vision"}, "cannot read the kubeconfig .*as-groups of a user"),
    ],
)
def test_an_identity_that_is_not_whole_is_refused(
    kubeconfig: Path, user: dict[str, object], told: str
) -> None:
    of_jane(kubeconfig, "http://a:1", **user)
    with pytest.raises(InputError, match=told):
        Connection.open(None, None)
