"""A connection to the API server of the user's kubeconfig, through the official client.

The only module of the command line that imports `kubernetes`, which takes longer than all else:
commands import it when they need a cluster. Objects are plain dicts in both directions.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import kube_config
from tftraining_operator.core import bounds
from tftraining_operator.core.text import one_line, printable

from tftraining.cluster.cluster import Execution
from tftraining.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InputError,
    NotFoundError,
    TFTrainingError,
    UnauthorizedError,
    UnreachableError,
)

_Object = dict[str, Any]
_Headers = tuple[tuple[str, str], ...]

_TIMEOUT = 30.0
_STREAM_SILENCE = 300.0
"""Seconds without a byte after which a stream counts as broken; its reader opens it again."""
_RETRIES = 3
"""After the API server asked for it (429). Who does not answer is not asked again: that takes four
times _TIMEOUT, and whoever waits in a loop tries again anyway."""
_DEFAULT_NAMESPACE = "default"
_OWN_KUBECONFIG = "~/.kube/config"
_IDENTITY = ("as", "as-uid", "as-groups", "as-user-extra")
"""Fields of a user in the kubeconfig, which acts as another one; kubectl sends them as headers."""
_OF_NAMES = "!#$&'*+^`|"
"""What the name of a header may have besides what `quote` leaves as it is."""
_MALFORMED = (AttributeError, LookupError, OSError, TypeError, ValueError, yaml.YAMLError)
"""What the client raises for a kubeconfig that is no file, or whose contents are none."""


class Connection:
    """Calls to one API server, with the namespace that commands use by default."""

    def __init__(self, api: client.ApiClient, namespace: str, identity: _Headers = ()) -> None:
        self._api = api
        self.namespace = namespace
        self._identity = identity
        """Headers that say as whom the user acts, if as another one."""

    @classmethod
    def open(cls, namespace: str | None, context: str | None) -> Self:
        """Connect as KUBECONFIG and its context say, else as the pod that this runs in.

        Raises InputError.
        """
        configuration = client.Configuration()
        # Not what the client read when it was imported: a notebook may have set it since.
        path = os.environ.get("KUBECONFIG") or _OWN_KUBECONFIG
        name = context or ""
        try:
            kubeconfig = kube_config.KubeConfigMerger(path)
            name = context or _current_context(kubeconfig)
            contexts = _contexts(kubeconfig, path)
            if context is not None:
                _named(contexts, context)
            config.load_kube_config(path, name or None, client_configuration=configuration)
            current = _named(contexts, name)["context"]
            default = current.get("namespace") or _DEFAULT_NAMESPACE
            identity = _identity(kubeconfig, name, current.get("user"))
        except config.ConfigException as error:
            if name or not _load_own_pod(configuration):
                raise InputError(
                    f"no cluster to talk to: {str(error).rstrip('.')}; set KUBECONFIG, or choose a"
                    " context of it with --context"
                ) from error
            default, identity = _own_namespace(), ()
        except _MALFORMED as error:
            reason = one_line(str(error))
            raise InputError(f"cannot read the kubeconfig {path}: {reason}") from error
        if _is_here(configuration.host) and configuration.proxy in getproxies().values():
            # As kubectl does: a proxy elsewhere does not reach it.
            configuration.proxy = None
        configuration.connection_pool_maxsize = 32
        configuration.retries = urllib3.Retry(_RETRIES, connect=0, read=0, other=0)
        api = client.ApiClient(configuration=configuration)
        return cls(api, namespace or default, identity)

    def within(self, namespace: str | None) -> Self:
        """Return the same connection for another namespace; None leaves it as it is."""
        return self if namespace is None else type(self)(self._api, namespace, self._identity)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: _Object | None = None,
        content_type: str = "application/json",
    ) -> _Object:
        """Make one call and return the object of its answer.

        Raises NotFoundError, AlreadyExistsError, InputError for what the API server refuses,
        UnreachableError if no whole answer came, and TFTrainingError for everything else.
        """
        response = self._send(method, path, query or {}, body=body, content_type=content_type)
        with _broken():
            text = response.read() or b""
        _check(method, response.status, text)
        return _parsed(text)

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        """Open a stream of lines, such as a log that is followed. Raises as `call` does."""
        response = self._send("GET", path, query, silence=_STREAM_SILENCE)
        try:
            with _broken():
                if response.status >= 300:  # noqa: PLR2004 - HTTP
                    _check("GET", response.status, response.read() or b"")
                yield _lines(response.response)
        finally:
            response.response.close()

    def execute(
        self, pod: str, container: str, command: Sequence[str]
    ) -> AbstractContextManager[Execution]:
        """Run a program in a container of the namespace until the block ends.

        Raises InputError, before that, for a user who acts as another one.
        """
        if self._identity:
            # The client's WebSocket sends no headers of ours.
            raise InputError(
                "the kubeconfig's user acts as somebody else (as), and as such tftj cannot run a"
                " program in a pod: choose another context (--context)"
            )
        from tftraining.cluster.execution import execute  # noqa: PLC0415 - WebSocket, rarely needed

        return execute(self._api.configuration, self.namespace, pod, container, command)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: _Object | None = None,
        content_type: str = "application/json",
        silence: float = _TIMEOUT,
    ) -> Any:  # noqa: ANN401 - the client is untyped
        url = f"{path}?{urlencode(query)}" if query else path
        method, url, headers, *rest = self._api.param_serialize(
            method,
            url,
            header_params={"Accept": "application/json, */*", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        headers = urllib3.HTTPHeaderDict(headers)
        for name, value in self._identity:
            headers.add(name, value)
        try:
            return self._api.call_api(
                method, url, headers, *rest, _request_timeout=(_TIMEOUT, silence)
            )
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            host = self._api.configuration.host
            raise UnreachableError(
                f"cannot reach the cluster at {host}: {_root(error)}; is it running, and is the"
                " context the right one (--context)?"
            ) from error


def _contexts(kubeconfig: kube_config.KubeConfigMerger, path: str) -> list[_Object]:
    """Return all contexts of the kubeconfig; the client's own list needs a current one."""
    merged = kubeconfig.config
    if merged is None:
        raise config.ConfigException(f"no kubeconfig {path}")
    return [each.value for each in merged["contexts"].value]


def _current_context(kubeconfig: kube_config.KubeConfigMerger) -> str:
    """Return the current context of the kubeconfig, "" without one; it may not describe it.

    Of several files that of the first which has one, as kubectl does; the client takes the last.
    """
    files = kubeconfig.config_files.values()
    return next((name for each in files if (name := each.get("current-context"))), "")


def _named(contexts: list[_Object], name: str) -> _Object:
    found = next((each for each in contexts if each["name"] == name), None)
    if found is None:
        known = ", ".join(each["name"] for each in contexts) or "none"
        raise InputError(f"--context: no context {name} in the kubeconfig; it has {known}")
    return found


def _identity(kubeconfig: kube_config.KubeConfigMerger, context: str, name: str | None) -> _Headers:
    """Return the headers by which a user acts as another one, as kubectl sends them.

    The client does not know them, and the user's own rights may be greater. Raises InputError.
    """
    users = [each.value for each in kubeconfig.config["users"].value]
    given = next((each.get("user") for each in users if each["name"] == name), None) or {}
    found = [each for each in _IDENTITY if given.get(each)]
    if not found:
        return ()
    if "as" not in found:
        raise InputError(
            f"user {name} of context {context} has {found[0]} but not as: add whom to act as, or"
            " choose another context (--context)"
        )
    extra = given.get("as-user-extra") or {}
    headers = [
        ("Impersonate-User", given["as"]),
        *(("Impersonate-Uid", given[each]) for each in found if each == "as-uid"),
        *(("Impersonate-Group", group) for group in _listed(given, "as-groups")),
        *(
            (f"Impersonate-Extra-{quote(key, safe=_OF_NAMES)}", value)
            for key in extra
            for value in _listed(extra, key)
        ),
    ]
    # In UTF-8, as kubectl writes them; http.client writes Latin-1.
    return tuple((key, str(value).encode().decode("latin-1")) for key, value in headers)


def _listed(given: _Object, field: str) -> list[Any]:
    found = given.get(field) or []
    if not isinstance(found, list):  # the letters of a text would be taken for names
        raise TypeError(f"{field} of a user must be a list")
    return found


def _is_here(url: str) -> bool:
    """Tell whether an address is one of this computer."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _load_own_pod(configuration: client.Configuration) -> bool:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        return False
    return True


def _own_namespace() -> str:
    path = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - one line
            return file.read().strip()
    except OSError:
        return _DEFAULT_NAMESPACE


@contextlib.contextmanager
def _broken() -> Iterator[None]:
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        # ProtocolError has the error of the socket as its second argument.
        reason = error.args[0] if error.args else error
        raise UnreachableError(f"the connection to the cluster broke: {reason}") from error


def _parsed(text: bytes) -> _Object:
    """Return the object of an answer. A proxy may cut it off, or answer by a page of its own."""
    try:
        found = bounds.read(text, json.loads)
    except ValueError as error:
        raise UnreachableError(_no_object(text)) from error
    if not isinstance(found, dict):
        raise UnreachableError(_no_object(text))
    return found


def _no_object(text: bytes) -> str:
    begin = one_line(text[:200].decode(errors="replace"))
    return f"the answer is no JSON object: {begin}; is it the address of a cluster (--context)?"


def _lines(response: urllib3.HTTPResponse) -> Iterator[str]:
    rest = b""
    for chunk in response.stream(amt=65536, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def _check(method: str, status: int, text: bytes) -> None:
    if status < 300:  # noqa: PLR2004 - HTTP
        return
    message = _message(text) or f"HTTP status {status}"
    if status == 404:  # noqa: PLR2004 - HTTP
        raise NotFoundError(message)
    if status == 409 and method == "POST":  # noqa: PLR2004 - HTTP
        raise AlreadyExistsError(message)
    if status in (400, 422):
        raise InputError(message)
    if status == 403:  # noqa: PLR2004 - HTTP
        raise ForbiddenError(message)
    if status == 401:  # noqa: PLR2004 - HTTP
        raise UnauthorizedError(
            f"{message}: the kubeconfig's credentials are not valid; log in again"
        )
    if status == 429 or status >= 500:  # noqa: PLR2004 - HTTP
        raise UnreachableError(f"the API server cannot answer now: {message}")
    raise TFTrainingError(message)


def _message(text: bytes) -> str:
    try:
        document = json.loads(text)
        return printable(str(document.get("message") or ""))
    except (ValueError, AttributeError):
        return printable(text[:500].decode(errors="replace")).strip()


def _root(error: BaseException) -> str:
    """Return what the innermost of urllib3's errors says."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _root(reason)
    if isinstance(original := getattr(error, "original_error", None), BaseException):
        return f"{error.args[0]}: {_root(original)}"  # of a proxy
    text = str(reason or error)
    return text.partition(": ")[2] if text.startswith("<") or "object at 0x" in text else text
