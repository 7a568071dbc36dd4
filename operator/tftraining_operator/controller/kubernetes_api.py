"""The API server, through the official client. The only module that imports `kubernetes`.

Objects are raw dicts in both directions: the client's models refuse and drop legal fields.
"""

import asyncio
import logging
import math
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes.aio import client, config

from tftraining_operator import __version__
from tftraining_operator.api import keys
from tftraining_operator.controller import wire
from tftraining_operator.core.advice import UNANSWERED
from tftraining_operator.core.naming import servers_selector
from tftraining_operator.core.schedulers import SCHEDULERS, kueue
from tftraining_operator.core.text import one_line, printable
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.limits import ALL, EVENTS
from tftraining_operator.reconcile.store import GROUPS, Kind

logger = logging.getLogger(__name__)

_Object = dict[str, Any]
_S = TypeVar("_S")
_T = TypeVar("_T")

FIELD_MANAGER = "tftraining-operator"
USER_AGENT = f"tftraining-operator/{__version__}"
"""By which the API server's logs, metrics and limits know the operator's requests."""

PAGE = 250
"""Objects that are listed by one request: taken in within some 30 ms."""
PAGES = {Kind.POD: 1000, Kind.SERVICE: 1000}
"""Of these less is read; and for each page the API server looks at all that follow it."""

_MOST_OF_PAGE = 32 * 1024 * 1024
"""Bytes: objects may have more than a megabyte each. A page that is larger is asked for again, with
so many times fewer objects:"""
_FEWER = 8

_TIMEOUT = 30.0
_PROMPT = 5.0
"""An answer that took longer (s) says nothing of the time: who was paused reads it too late."""
_CONNECTIONS = ALL + EVENTS + 32
"""Beside the calls that limits.py counts, which admission may hold up, are statuses and leases."""
_KEEPALIVE = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 4}
"""After how many seconds of silence the server's machine is asked whether it is there, how often
and how many times: a watch of one that has gone without a word ends after 40 s."""
_MAX_RETRY_AFTER = 60.0
_MAX_MESSAGE = 2000
_LABELS = "labelSelector"
_FIELDS = "fieldSelector"
_MERGE_PATCH = "application/merge-patch+json"
_BASES = {
    Kind.JOB: f"/apis/{keys.API_VERSION}",
    Kind.NETWORK_POLICY: "/apis/networking.k8s.io/v1",
    Kind.DISRUPTION_BUDGET: "/apis/policy/v1",
}
"""Where kinds are served that are neither in the core group nor named by their resource."""
_APIS = {kind: SCHEDULERS[gang].api for gang, kind in GROUPS.items()} | {Kind.WORKLOAD: kueue.API}
"""Of others, in one of several versions. Their kind's value is their resource for kubectl."""
_VERBS = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_VERBS_OF_COLLECTIONS = {"GET": "list", "DELETE": "deletecollection"}
_DENIED = ("denied the request", "denied request")
"""How the API server begins what an admission webhook or a ValidatingAdmissionPolicy says."""
_CONFLICT = "Operation cannot be fulfilled on "
"""How it begins what it says of an object that was written meanwhile; where something is created,
that is a ResourceQuota, into which it counts."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of a kind at one resource version: all, or a page of them."""

    items: list[_Object]
    resource_version: str
    is_cut: bool = False
    """Whether they are cut down to what is read of them (core/slim.py)."""


class Call(NamedTuple):
    """A request that was sent."""

    verb: str
    """The API's word for it: get, list, create, update, patch, delete or deletecollection."""
    resource: str
    """Plural of the kind, with the subresource: tftrainingjobs/status."""
    code: str
    """Status of the answer; error without one."""
    seconds: float


class _TooLargeError(Exception):
    """An answer has more bytes than is taken."""


class KubernetesApi:
    """Calls to the API server.

    It writes only while `seconds_left` returns more than 0, and a write ends within that time. The
    moment between this check and the socket cannot be closed: what is written must be safe beside
    another leader's writes, by its name, resource version or uid. Of what jobs own it lists and
    watches what `selector` selects by labels, of jobs what `job_selector` selects by fields.
    """

    def __init__(
        self,
        configuration: client.Configuration,
        seconds_left: Callable[[], float] = lambda: math.inf,
        observe: Callable[[Call], None] = lambda _call: None,
        selector: Callable[[], str] = lambda: keys.LABEL_JOB,
        job_selector: Callable[[], str] = lambda: "",
        *,
        heard: Callable[[str], None] = lambda _date: None,
    ) -> None:
        """`heard` is told the time of each prompt answer, by the API server's clock."""
        self._configuration = configuration
        self._seconds_left = seconds_left
        self._observe = observe
        self._selector = selector
        self._job_selector = job_selector
        self._heard = heard
        self._selects_jobs = True
        self._watches: set[aiohttp.ClientResponse] = set()
        self._watches_ended = 0
        self._served_from = 0.0
        self._versions = {kind: api.versions[0] for kind, api in _APIS.items()}
        tls = client.rest.RESTClientObject(configuration).ssl_context
        self._session = _session(configuration.host, tls, limit=_CONNECTIONS)
        # Each watch has a connection for minutes, and each namespace that is named has five.
        self._watching = _session(configuration.host, tls, limit=0, socket_factory=_kept_alive)

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        *,
        seconds_left: Callable[[], float] = lambda: math.inf,
        observe: Callable[[Call], None] = lambda _call: None,
        selector: Callable[[], str] = lambda: keys.LABEL_JOB,
        job_selector: Callable[[], str] = lambda: "",
        heard: Callable[[str], None] = lambda _date: None,
    ) -> Self:
        """Connect as the pod's service account, else as this kubeconfig or KUBECONFIG says."""
        configuration = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            await config.load_kube_config(kubeconfig, client_configuration=configuration)
        return cls(configuration, seconds_left, observe, selector, job_selector, heard=heard)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
        await self._watching.close()

    async def list(self, kind: Kind, namespace: str | None) -> Listing:
        """List our objects of a kind, in one namespace or, for None, in all.

        Of a kind of others, in the newest version that we know and the server has; it is kept.
        """
        if kind not in _APIS:
            return await _whole(self.pages(kind, namespace))
        known = self._versions[kind]
        *others, last = sorted(_APIS[kind].versions, key=lambda version: version != known)
        for version in others:
            with suppress(errors.NotFoundError):
                return await self._list_in(version, kind, namespace)
        return await self._list_in(last, kind, namespace)

    async def _list_in(self, version: str, kind: Kind, namespace: str | None) -> Listing:
        found = await _whole(self._pages(kind, namespace, self._selected(kind), version))
        self._versions[kind] = version
        return found

    def version(self, kind: Kind) -> str:
        """Return the version in which a kind of others is read and written."""
        return self._versions[kind]

    def pages(self, kind: Kind, namespace: str | None) -> AsyncIterator[Listing]:
        """List as `list` does, a page or a part of one at a time: all of one resource version.

        Whoever drops a part before asking for the next one holds only one page in memory; and to
        decode ten thousand pods, or hundreds of large jobs, at once would stop the process for
        seconds.
        """
        return self._pages(kind, namespace, self._selected(kind))

    async def list_unlabelled_pods(self, namespace: str | None) -> Listing:
        """List pods that lost the label by which `list` selects, but have one that goes with it."""
        return await _whole(
            self._pages(Kind.POD, namespace, {_LABELS: f"{keys.LABEL_ROLE},!{keys.LABEL_JOB}"})
        )

    async def _pages(
        self, kind: Kind, namespace: str | None, selected: dict[str, str], version: str = ""
    ) -> AsyncIterator[Listing]:
        usual = limit = PAGES.get(kind, PAGE)
        query = dict(selected)
        path = self._collection(kind, namespace, version)
        while True:
            query["limit"] = str(limit)
            try:
                most = _MOST_OF_PAGE if limit > 1 else math.inf
                text = await self._answer("GET", path, query=query, most=most)
            except _TooLargeError:
                limit = max(1, limit // _FEWER)
                continue
            except errors.InvalidObjectError as error:
                if "continue" in query or query.pop(_FIELDS, None) is None:
                    raise
                self._selects_jobs = False
                logger.warning(
                    "all jobs are read, and not only this shard's: is the CRD of another version"
                    " than the operator? (%s)",
                    one_line(error.message),
                )
                continue
            if _FIELDS in query:
                self._selects_jobs = True
            parts, more = _parts(kind, path, text)
            for part in parts:
                yield part
                await asyncio.sleep(0)  # all else gets its turn
            if not more:
                return
            query["continue"] = more
            limit = min(usual, 2 * limit)

    async def get(self, kind: Kind, namespace: str, name: str) -> _Object:
        """Read one object. Raises NotFoundError."""
        return await self._call("GET", f"{self._collection(kind, namespace)}/{name}")

    async def create(self, kind: Kind, body: _Object, *, dry_run: bool = False) -> _Object:
        """Create an object, strictly: a field that the server does not know is refused.

        Not so in a Workload, whose pod templates are those of the Kubernetes that Kueue was made
        for: fields that came later are nothing to it.
        """
        strictness = "Ignore" if kind is Kind.WORKLOAD else "Strict"
        query = {"fieldValidation": strictness, "fieldManager": FIELD_MANAGER}
        if dry_run:
            query["dryRun"] = "All"
        version = str(body["apiVersion"]).rpartition("/")[2] if kind in _APIS else ""
        path = self._collection(kind, body["metadata"]["namespace"], version)
        return await self._call("POST", path, body=body, query=query)

    async def replace(self, kind: Kind, body: _Object) -> _Object:
        """Write an object over the one of its uid and resourceVersion, strictly.

        Raises ConflictError if that has changed, NotFoundError.
        """
        query = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
        metadata = body["metadata"]
        path = f"{self._collection(kind, metadata['namespace'])}/{metadata['name']}"
        return await self._call("PUT", path, body=body, query=query)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> _Object:
        """Delete an object if it still is the one with that uid.

        A pod gets `grace` seconds to end instead of its own; with 0 its node is not waited for.
        """
        options: _Object = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        path = f"{self._collection(kind, namespace)}/{name}"
        return await self._call("DELETE", path, body=options)

    async def delete_servers(self, namespace: str, job: str, uid: str) -> None:
        """Delete all workers and parameter servers of the job with this uid, by one request."""
        query = {_LABELS: servers_selector(job, uid)}
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        await self._call("DELETE", self._collection(Kind.POD, namespace), body=options, query=query)

    async def patch_status(
        self, namespace: str, name: str, resource_version: str, patch: _Object
    ) -> _Object:
        """Merge `patch` into a job's status. Raises ConflictError if it has changed since."""
        body = {"metadata": {"resourceVersion": resource_version}, "status": patch}
        path = f"{self._collection(Kind.JOB, namespace)}/{name}/status"
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call("PATCH", path, body=body, query=query, content_type=_MERGE_PATCH)

    async def patch_workload(
        self,
        namespace: str,
        name: str,
        resource_version: str,
        patch: _Object,
        *,
        subresource: str = "",
    ) -> _Object:
        """Merge `patch` into a Workload or its status. Raises ConflictError if it has changed."""
        metadata = (patch.get("metadata") or {}) | {"resourceVersion": resource_version}
        path = f"{self._collection(Kind.WORKLOAD, namespace)}/{name}"
        return await self._call(
            "PATCH",
            f"{path}/{subresource}" if subresource else path,
            body={**patch, "metadata": metadata},
            query={"fieldManager": FIELD_MANAGER},
            content_type=_MERGE_PATCH,
        )

    async def read(self, path: str) -> _Object:
        """Read one object, or a collection, by its path. Raises NotFoundError."""
        return await self._call("GET", path)

    async def watch(
        self,
        kind: Kind,
        namespace: str | None,
        resource_version: str,
        seconds: int,
    ) -> AsyncIterator[_Object]:
        """Yield the watch events of our objects of a kind, bookmarks too, for so many seconds.

        It ends before that where `end_watches` says so.
        """
        ended_before = self._watches_ended
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        if kind is not Kind.JOB or self._selects_jobs:
            query |= self._selected(kind)
        path = self._collection(kind, namespace)
        timeout = aiohttp.ClientTimeout(sock_connect=_TIMEOUT, sock_read=seconds + _TIMEOUT)
        try:
            async with self._watching.get(
                f"{self._configuration.host}{path}",
                params=query,
                headers=await self._credentials(),
                proxy=self._configuration.proxy,
                proxy_headers=self._configuration.proxy_headers,
                server_hostname=self._configuration.tls_server_name,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:  # noqa: PLR2004 - HTTP
                    text = await response.read()
                    raise _error("GET", response.status, text, response.headers)
                if self._watches_ended != ended_before:
                    return
                self._watches.add(response)
                try:
                    # By hand: aiohttp limits the length of lines, which a Workload may exceed.
                    decode, left = partial(wire.decode_event, kind), b""
                    async for chunk in response.content.iter_any():
                        *lines, left = (left + chunk).split(b"\n")
                        for line in lines:
                            yield _decoded("GET", path, decode, line)
                finally:
                    self._watches.discard(response)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            if self._watches_ended != ended_before:
                return
            raise errors.TransientError(f"GET {path}: {one_line(str(error))}") from error

    def _selected(self, kind: Kind) -> dict[str, str]:
        """Return what selects our objects of a kind; jobs are their users', without our labels."""
        if kind is not Kind.JOB:
            return {_LABELS: self._selector()}
        selector = self._job_selector()
        return {_FIELDS: selector} if selector else {}

    def end_watches(self) -> None:
        """End all watches, so that who follows one begins it again, with what is selected now."""
        self._watches_ended += 1
        for response in self._watches:
            response.close()

    async def create_event(self, body: _Object) -> None:
        """Create an event of events.k8s.io."""
        namespace = body["metadata"]["namespace"]
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        await self._call("POST", path, body=body)

    async def get_lease(self, namespace: str, name: str) -> _Object:
        """Read a lease. Raises NotFoundError."""
        return await self._call("GET", f"{_leases(namespace)}/{name}")

    async def create_lease(self, body: _Object) -> _Object:
        """Create a lease. Raises AlreadyExistsError."""
        return await self._call("POST", _leases(body["metadata"]["namespace"]), body=body)

    async def replace_lease(self, body: _Object) -> _Object:
        """Write a lease as it was read and changed. Raises ConflictError, NotFoundError."""
        metadata = body["metadata"]
        path = f"{_leases(metadata['namespace'])}/{metadata['name']}"
        return await self._call("PUT", path, body=body)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: _Object | None = None,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> _Object:
        text = await self._answer(method, path, body=body, query=query, content_type=content_type)
        return _decoded(method, path, wire.decode, text)

    async def _answer(
        self,
        method: str,
        path: str,
        *,
        body: _Object | None = None,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        most: float = math.inf,
    ) -> bytes:
        """Return the body of an answer. Raises _TooLargeError if it has more than `most` bytes."""
        await self._until_served()
        timeout = _TIMEOUT
        if method != "GET":
            timeout = min(timeout, self._seconds_left())
            if timeout <= 0:
                raise errors.NotLeadingError(f"{method} {path}: not sent, the lease is over")
        headers = await self._credentials()
        if body is not None:
            headers["Content-Type"] = content_type
        began, code = time.monotonic(), "error"
        try:
            async with self._session.request(
                method,
                f"{self._configuration.host}{path}",
                params=query,
                data=None if body is None else wire.encode(body),
                headers=headers,
                proxy=self._configuration.proxy,
                proxy_headers=self._configuration.proxy_headers,
                server_hostname=self._configuration.tls_server_name,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
            ) as response:
                if time.monotonic() - began < _PROMPT:
                    self._heard(response.headers.get("Date", ""))
                text = await _body(response, most)
            code = str(response.status)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            reason = one_line(str(error)) or type(error).__name__
            raise errors.TransientError(f"{method} {path}: {reason}") from error
        finally:
            self._observe(Call(*_words(method, path), code, time.monotonic() - began))
        if response.status >= 300:  # noqa: PLR2004 - HTTP
            refused = _error(method, response.status, text, response.headers)
            if refused.status == HTTPStatus.TOO_MANY_REQUESTS and not _is_denied(refused.message):
                self._served_from = time.monotonic() + (refused.retry_after or 0.0)
            raise refused
        return text

    def _collection(self, kind: Kind, namespace: str | None, version: str = "") -> str:
        base = _BASES.get(kind, "/api/v1")
        if kind in _APIS:
            base = f"/apis/{_APIS[kind].group}/{version or self._versions[kind]}"
        resource = plural(kind)
        return f"{base}/namespaces/{namespace}/{resource}" if namespace else f"{base}/{resource}"

    async def _until_served(self) -> None:
        """Wait while the server has asked for a pause: it asks whoever comes, not one request."""
        while (left := self._served_from - time.monotonic()) > 0:  # noqa: ASYNC110 - may be longer
            await asyncio.sleep(left)

    async def _credentials(self) -> dict[str, str]:
        """Return the header that says who calls; a token may have been renewed."""
        settings = await self._configuration.auth_settings()
        return {each["key"]: each["value"] for each in settings.values() if each["value"]}


def _session(host: str, tls: ssl.SSLContext, **connections: Any) -> aiohttp.ClientSession:  # noqa: ANN401 - aiohttp's
    """Return a session: the client's own looks up netrc and proxies, and copies all, each time."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, **connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/json", "User-Agent": USER_AGENT},
        trust_env=needs_proxy(host),
    )


async def _body(response: aiohttp.ClientResponse, most: float) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > most:
            raise _TooLargeError
        pieces.append(piece)
    return b"".join(pieces)


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


async def _whole(pages: AsyncIterator[Listing]) -> Listing:
    found = [page async for page in pages]
    return Listing([item for page in found for item in page.items], found[-1].resource_version)


def needs_proxy(url: str) -> bool:
    """Tell whether the environment names a proxy for a URL, as HTTPS_PROXY and NO_PROXY do.

    Asked once at the start: aiohttp would look for them, and for a netrc, at each request.
    """
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.netloc)


def plural(kind: Kind) -> str:
    """Return a kind's resource, as in paths and roles."""
    if kind is Kind.JOB:
        return keys.PLURAL
    if kind is Kind.NETWORK_POLICY:
        return "networkpolicies"
    return kind.value.split(".")[0] if kind in _APIS else f"{kind.value.lower()}s"


def _words(method: str, path: str) -> tuple[str, str]:
    """Return verb and resource of a request, as in roles."""
    start = 3 if path.startswith("/api/") else 4  # /api/v1/…, /apis/group/version/…
    parts = path.split("/")[start:]
    if parts[0] == "namespaces":
        parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    verb = _VERBS[method] if name else _VERBS_OF_COLLECTIONS.get(method, _VERBS[method])
    return verb, f"{resource}/{subresource}" if subresource else resource


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def _error(method: str, status: int, text: bytes, headers: Any) -> errors.ApiError:  # noqa: ANN401
    message = _message(text)
    # A webhook or policy chooses its code; only its message tells it from the server's own checks.
    denied = _is_denied(message)
    if status == 404 and not denied:  # noqa: PLR2004 - HTTP
        return errors.NotFoundError(message, status=status)
    if status == 409 and not denied:  # noqa: PLR2004 - HTTP
        return _conflict(method, message)
    if status in (400, 422) and not denied:
        return errors.InvalidObjectError(message, status=status)
    if status == 403 or denied:  # noqa: PLR2004 - HTTP
        return errors.ForbiddenError(message, status=status)
    if UNANSWERED in message:
        return errors.AdmissionUnavailableError(message, status=status)
    after = (headers or {}).get("Retry-After", "")
    retry_after = min(float(after), _MAX_RETRY_AFTER) if after.isdecimal() else None
    return errors.TransientError(f"{status}: {message}", status=status, retry_after=retry_after)


def _conflict(method: str, message: str) -> errors.ApiError:
    if method != "POST":
        kind: type[errors.ApiError] = errors.ConflictError
    elif message.startswith(_CONFLICT):
        kind = errors.TransientError
    else:
        kind = errors.AlreadyExistsError
    return kind(message, status=HTTPStatus.CONFLICT)


def _is_denied(message: str) -> bool:
    return any(phrase in message for phrase in _DENIED)


def _parts(kind: Kind, path: str, text: bytes) -> tuple[Iterator[Listing], str]:
    """Return what a page has, decoded part by part, and what asks for the next one, or ""."""
    objects, version, more = _decoded("GET", path, wire.decode_list, text)
    word = kind.word

    def part(portion: Sequence[msgspec.Raw]) -> Listing:
        items = _decoded("GET", path, partial(wire.decode_objects, kind), portion)
        for item in items:  # a list's items carry none
            item.setdefault("kind", word)
        return Listing(items, version, wire.is_cut(kind))

    return map(part, wire.portions(objects)), more


def _decoded(method: str, path: str, decode: Callable[[_S], _T], given: _S) -> _T:
    try:
        return decode(given)
    except ValueError as error:
        reason = one_line(str(error))
        raise errors.TransientError(f"{method} {path}: not as the API has it: {reason}") from error


def _message(text: bytes) -> str:
    """Return an error's message. Admission webhooks and policies write what they like into it."""
    try:
        message = str(wire.decode(text).get("message") or "")
    except ValueError:
        message = text[:_MAX_MESSAGE].decode(errors="replace")
    return printable(message)[:_MAX_MESSAGE]
