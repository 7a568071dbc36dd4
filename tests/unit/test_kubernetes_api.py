"""What the client makes of an API server's answers, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.aio import client
from tftraining_operator.controller import kubernetes_api
from tftraining_operator.controller.kubernetes_api import (
    PAGE,
    PAGES,
    Call,
    KubernetesApi,
    needs_proxy,
)
from tftraining_operator.reconcile import errors, limits
from tftraining_operator.reconcile.store import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def serving(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
    observe: Callable[[Call], None] = lambda _call: None,
    selector: Callable[[], str] = lambda: "tftraining.dev/job",
    job_selector: Callable[[], str] = lambda: "",
    heard: Callable[[str], None] = lambda _date: None,
) -> AsyncIterator[KubernetesApi]:
    """A client of a server."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    configuration = client.Configuration(host=f"http://{host}:{port}")
    api = KubernetesApi(
        configuration, observe=observe, selector=selector, job_selector=job_selector, heard=heard
    )
    try:
        yield api
    finally:
        await api.close()
        await runner.cleanup()


@contextlib.asynccontextmanager
async def answering(
    status: int,
    body: str | bytes,
    headers: dict[str, str] | None = None,
    observe: Callable[[Call], None] = lambda _call: None,
) -> AsyncIterator[KubernetesApi]:
    """A client of a server that gives one answer to everything."""

    async def answer(_request: web.Request) -> web.Response:
        raw = body.encode() if isinstance(body, str) else body
        return web.Response(status=status, body=raw, headers=headers)

    async with serving(answer, observe) as api:
        yield api


def a_status(message: str) -> str:
    return json.dumps({"kind": "Status", "status": "Failure", "message": message})


async def get(api: KubernetesApi) -> Any:
    return await api.get(Kind.POD, "default", "mnist-worker-0")


async def create(api: KubernetesApi) -> Any:
    return await api.create(Kind.POD, {"metadata": {"namespace": "default", "name": "p"}})


async def test_the_time_of_each_answer_is_heard_by_the_servers_clock() -> None:
    dates = ["Fri, 02 Jan 2026 03:04:05 GMT", "Fri, 02 Jan 2026 03:04:06 GMT"]
    left, told = list(dates), list[str]()

    async def answer(_request: web.Request) -> web.Response:
        status = 200 if len(left) > 1 else 404
        return web.json_response({}, status=status, headers={"Date": left.pop(0)})

    async with serving(answer, heard=told.append) as api:
        await get(api)
        with pytest.raises(errors.NotFoundError):
            await get(api)
    assert told == dates


async def test_an_answer_that_was_long_on_its_way_says_nothing_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process may have stood still since, and would take its own time for a later one."""
    monkeypatch.setattr(kubernetes_api, "_PROMPT", 0.0)
    told = list[str]()

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({})

    async with serving(answer, heard=told.append) as api:
        await get(api)
    assert told == []


async def test_the_servers_of_a_job_are_selected_by_its_name_its_uid_and_their_roles() -> None:
    asked, seen = [], []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, dict(request.query)))
        return web.json_response({"kind": "PodList", "items": []})

    async with serving(answer, seen.append) as api:
        await api.delete_servers("default", "mnist", "u1")
    labels = "tftraining.dev/job=mnist,tftraining.dev/job-uid=u1,tftraining.dev/role in (ps,worker)"
    path = "/api/v1/namespaces/default/pods"
    assert asked == [("DELETE", path, {"labelSelector": labels})]
    assert [(call.verb, call.resource) for call in seen] == [("deletecollection", "pods")]


async def delete(api: KubernetesApi) -> Any:
    return await api.delete(Kind.POD, "default", "mnist-worker-0", "u1")


async def patch(api: KubernetesApi) -> Any:
    return await api.patch_status("default", "mnist", "7", {"state": "Running"})


@pytest.mark.parametrize(
    ("call", "status", "expected"),
    [
        pytest.param(get, 404, errors.NotFoundError, id="a read of what is gone"),
        pytest.param(patch, 404, errors.NotFoundError, id="a status of a job that is gone"),
        pytest.param(create, 409, errors.AlreadyExistsError, id="a name that is taken"),
        pytest.param(delete, 409, errors.ConflictError, id="a deletion of another object"),
        pytest.param(patch, 409, errors.ConflictError, id="a status of a changed job"),
        pytest.param(create, 400, errors.InvalidObjectError, id="an unknown field"),
        pytest.param(create, 422, errors.InvalidObjectError, id="an invalid object"),
        pytest.param(create, 403, errors.ForbiddenError, id="a pod beyond a quota"),
        pytest.param(delete, 403, errors.ForbiddenError, id="a deletion denied by admission"),
        pytest.param(get, 401, errors.TransientError, id="a token that has expired"),
        pytest.param(create, 429, errors.TransientError, id="too many requests"),
        pytest.param(delete, 429, errors.TransientError, id="a disruption budget"),
        pytest.param(create, 500, errors.TransientError, id="an error of the server"),
        pytest.param(get, 503, errors.TransientError, id="a server that is starting"),
        pytest.param(get, 504, errors.TransientError, id="a timeout of the server"),
    ],
)
async def test_errors_say_what_can_be_done(
    call: Any, status: int, expected: type[errors.ApiError]
) -> None:
    async with answering(status, a_status("no")) as api:
        with pytest.raises(errors.ApiError) as refused:
            await call(api)
    assert type(refused.value) is expected
    assert refused.value.status == status
    assert "no" in refused.value.message


async def test_a_quota_that_was_written_meanwhile_is_no_name_that_is_taken() -> None:
    words = (
        'Operation cannot be fulfilled on resourcequotas "team": the object has been modified;'
        " please apply your changes to the latest version and try again"
    )
    async with answering(409, a_status(words)) as api:
        for call in (create(api), api.create_event({"metadata": {"namespace": "default"}})):
            with pytest.raises(errors.TransientError, match=words) as refused:
                await call
            assert refused.value.status == 409
        with pytest.raises(errors.ConflictError):
            await patch(api)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param("99999999999", 60.0, id="years are not waited for"),
        pytest.param("9" * 4000, 60.0, id="nor longer than any number"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", None, id="a date, which needs two clocks"),
        pytest.param("soon", None, id="a word"),
        pytest.param(None, None, id="nothing"),
    ],
)
async def test_a_busy_server_says_when_to_come_back(
    status: int, header: str | None, seconds: float | None
) -> None:
    headers = {} if header is None else {"Retry-After": header}
    async with answering(status, a_status("busy"), headers) as api:
        with pytest.raises(errors.TransientError) as refused:
            await create(api)
    assert refused.value.retry_after == seconds


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            a_status("denied by \x1b[31mpolicy\x1b[0m:\nline 2\x00"),
            "denied by policy:\nline 2",
            id="an admission webhook's text",
        ),
        pytest.param("<h1>\x1b]0;title\x07Bad gateway</h1>", "<h1>Bad gateway</h1>", id="no JSON"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no text"),
        pytest.param("[]", "[]", id="no object"),
        pytest.param('{"kind": "Status"}', "", id="no message"),
        pytest.param(a_status("x" * 9000), "x" * 2000, id="a message without end"),
    ],
)
async def test_a_message_is_printable_and_bounded(body: str | bytes, message: str) -> None:
    async with answering(403, body) as api:
        with pytest.raises(errors.ForbiddenError) as refused:
            await create(api)
    assert refused.value.message == message


@pytest.mark.parametrize("body", ["", "{", "[]", "\ufffd"])
async def test_an_answer_that_is_no_object_is_an_error_to_retry(body: str) -> None:
    async with answering(200, body) as api:
        with pytest.raises(errors.TransientError):
            await get(api)


async def test_a_server_that_is_away_is_an_error_to_retry() -> None:
    api = KubernetesApi(client.Configuration(host="http://127.0.0.1:1"))
    with pytest.raises(errors.TransientError):
        await get(api)
    await api.close()


async def test_every_request_is_observed_by_verb_resource_and_code() -> None:
    calls: list[Call] = []
    metadata = {"namespace": "default", "name": "x"}
    async with answering(409, a_status("no"), observe=calls.append) as api:
        for call in (
            api.list(Kind.JOB, None),
            api.list(Kind.POD, "default"),
            get(api),
            create(api),
            delete(api),
            patch(api),
            api.create_event({"metadata": metadata}),
            api.get_lease("default", "x"),
            api.replace_lease({"metadata": metadata}),
        ):
            with pytest.raises(errors.ApiError):
                await call
    assert [(call.verb, call.resource, call.code) for call in calls] == [
        ("list", "tftrainingjobs", "409"),
        ("list", "pods", "409"),
        ("get", "pods", "409"),
        ("create", "pods", "409"),
        ("delete", "pods", "409"),
        ("patch", "tftrainingjobs/status", "409"),
        ("create", "events", "409"),
        ("get", "leases", "409"),
        ("update", "leases", "409"),
    ]
    assert all(0 < call.seconds < 5 for call in calls)


async def test_a_request_without_an_answer_is_observed_as_an_error_and_one_not_sent_is_not() -> (
    None
):
    calls: list[Call] = []
    nobody = client.Configuration(host="http://127.0.0.1:1")
    api = KubernetesApi(nobody, observe=calls.append)
    with pytest.raises(errors.TransientError):
        await get(api)
    fenced = KubernetesApi(nobody, lambda: 0.0, calls.append)
    with pytest.raises(errors.NotLeadingError):
        await create(fenced)
    await api.close()
    await fenced.close()
    assert [(call.verb, call.resource, call.code) for call in calls] == [("get", "pods", "error")]


async def test_a_listing_is_read_page_by_page_at_one_version() -> None:
    asked: list[dict[str, str]] = []
    names = [f"pod-{number}" for number in range(5)]

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        start, limit = int(request.query.get("continue", "0")), 2
        items = [{"metadata": {"name": name}} for name in names[start : start + limit]]
        left = {"continue": str(start + limit)} if start + limit < len(names) else {}
        return web.json_response({"metadata": {"resourceVersion": "9", **left}, "items": items})

    async with serving(answer) as api:
        pages = [page async for page in api.pages(Kind.POD, None)]
    assert [[each["metadata"]["name"] for each in page.items] for page in pages] == [
        ["pod-0", "pod-1"],
        ["pod-2", "pod-3"],
        ["pod-4"],
    ]
    assert {page.resource_version for page in pages} == {"9"}
    assert {query["labelSelector"] for query in asked} == {"tftraining.dev/job"}
    assert {query["limit"] for query in asked} == {str(PAGES[Kind.POD])}


async def test_large_objects_of_a_page_are_decoded_in_turns_of_the_event_loop_each() -> None:
    """Decoded, a job of 128 KiB that is all braces takes tens of milliseconds."""
    text = "x" * 130_000
    jobs = [{"metadata": {"name": f"job-{n}", "uid": "1"}, "spec": {"x": text}} for n in range(16)]
    turns = 0

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": jobs})

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving(answer) as api:
        counting = asyncio.create_task(count_turns())
        found, begun = [], []
        async for page in api.pages(Kind.JOB, None):
            found += [job["metadata"]["name"] for job in page.items]
            begun.append(turns)
            assert len(page.items) <= 2
        counting.cancel()
    assert found == [f"job-{n}" for n in range(16)]
    assert len(begun) == len(set(begun))


async def test_a_page_that_is_too_large_is_asked_for_again_with_fewer_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes_api, "_MOST_OF_PAGE", 50_000)
    jobs = [{"metadata": {"name": f"job-{n}", "uid": str(n)}, "spec": {}} for n in range(40)]
    for job in jobs[10:13]:
        job["spec"] = {"template": "x" * 40_000}
    asked: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(int(request.query["limit"]))
        begin = int(request.query.get("continue", 0))
        end = begin + asked[-1]
        metadata = {"resourceVersion": "7", "continue": str(end) if end < len(jobs) else ""}
        return web.json_response({"metadata": metadata, "items": jobs[begin:end]})

    async with serving(answer) as api:
        found = await api.list(Kind.JOB, None)
    assert [job["metadata"]["name"] for job in found.items] == [f"job-{n}" for n in range(40)]
    assert asked[:2] == [PAGE, PAGE // 8]
    assert asked[2:5] == [PAGE // 64, 2 * (PAGE // 64), 4 * (PAGE // 64)]
    assert 1 in asked, "three of the large ones were one too many"
    assert len(asked) < 20


async def test_groups_are_listed_and_written_in_the_newest_version_that_the_server_has() -> None:
    served, asked = {"v1alpha2"}, []

    async def answer(request: web.Request) -> web.Response:
        version = request.path.split("/")[3]
        asked.append((request.method, version))
        if version not in served:
            return web.json_response({}, status=404)
        return web.json_response({"items": [], "metadata": {"resourceVersion": "1"}})

    async with serving(answer) as api:
        assert api.version(Kind.IN_TREE_GROUP) == "v1beta1"
        for _ in range(2):
            await api.list(Kind.IN_TREE_GROUP, None)
        await api.delete(Kind.IN_TREE_GROUP, "default", "mnist", "u1")
        assert asked == [("GET", "v1beta1"), *[("GET", "v1alpha2")] * 2, ("DELETE", "v1alpha2")]

        # The cluster is upgraded.
        served, asked = {"v1beta1"}, []
        await api.list(Kind.IN_TREE_GROUP, None)
        body = {"apiVersion": "scheduling.k8s.io/v1beta1", "metadata": {"namespace": "default"}}
        await api.create(Kind.IN_TREE_GROUP, body)
        assert asked == [("GET", "v1alpha2"), ("GET", "v1beta1"), ("POST", "v1beta1")]

        served = set()
        with pytest.raises(errors.NotFoundError):
            await api.list(Kind.IN_TREE_GROUP, None)


async def test_requests_say_who_makes_them_with_the_token_of_that_moment() -> None:
    seen: list[tuple[str | None, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.headers.get("Authorization"), request.headers.get("User-Agent")))
        return web.json_response({})

    async with serving(answer) as api:
        for token in ("first", "second"):
            api._configuration.api_key = {"BearerToken": f"Bearer {token}"}
            await get(api)
    assert [token for token, _ in seen] == ["Bearer first", "Bearer second"]
    assert all(agent and agent.startswith("tftraining-operator/") for _, agent in seen)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        pytest.param({}, False, id="none"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128"}, True, id="for every host"),
        pytest.param({"https_proxy": "http://proxy:3128"}, True, id="in small letters"),
        pytest.param({"HTTP_PROXY": "http://proxy:3128"}, False, id="for another scheme"),
        pytest.param(
            {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.1,.internal"},
            False,
            id="not for this host",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.2"},
            True,
            id="not for another host",
        ),
    ],
)
def test_the_environment_is_asked_for_a_proxy_once(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *, wanted: bool
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert needs_proxy("https://10.0.0.1:6443") is wanted


async def test_requests_go_through_the_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append(str(request.url))
        return web.json_response({"metadata": {"name": "through the proxy"}})

    async with serving(proxy) as through:
        monkeypatch.setenv("http_proxy", through._configuration.host)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        api = KubernetesApi(client.Configuration(host="http://cluster.invalid"))
        try:
            found = await get(api)
        finally:
            await api.close()
    assert found["metadata"]["name"] == "through the proxy"
    assert asked == ["http://cluster.invalid/api/v1/namespaces/default/pods/mnist-worker-0"]


async def test_while_the_server_asks_for_a_pause_no_request_is_made() -> None:
    asked: list[float] = []

    async def answer(_request: web.Request) -> web.Response:
        asked.append(time.monotonic())
        if len(asked) == 1:
            return web.Response(status=429, text=a_status("busy"), headers={"Retry-After": "1"})
        return web.json_response({})

    async with serving(answer) as api:
        with pytest.raises(errors.TransientError):
            await create(api)
        await asyncio.gather(*(create(api) for _ in range(50)))
    assert len(asked) == 51
    assert min(asked[1:]) - asked[0] >= 0.9


@pytest.mark.parametrize("status", [400, 404, 409, 422])
@pytest.mark.parametrize("call", [create, delete])
async def test_what_an_admission_webhook_denies_is_forbidden_whatever_its_code(
    call: Any, status: int
) -> None:
    denial = a_status('admission webhook "keep.example" denied the request: it is used')
    async with answering(status, denial) as api:
        with pytest.raises(errors.ForbiddenError, match="it is used"):
            await call(api)


async def test_calls_that_a_webhook_holds_up_leave_connections_to_leases_and_statuses() -> None:
    """However many jobs and namespaces make them."""
    held, release = list[str](), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            held.append(request.path)
            await release.wait()
        return web.json_response({})

    async with serving(answer) as api:
        waiting = [asyncio.create_task(create(api)) for _ in range(limits.ALL)]
        body = {"metadata": {"namespace": "default"}}
        waiting += [asyncio.create_task(api.create_event(body)) for _ in range(limits.EVENTS)]
        while len(held) < len(waiting):  # noqa: ASYNC110 - the server's count
            await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(10):
                await api.get_lease("default", "mine")
                await asyncio.gather(*(patch(api) for _ in range(100)))
        finally:
            release.set()
        await asyncio.gather(*waiting)


async def test_an_admission_webhook_that_does_not_answer_is_no_trouble_of_the_server() -> None:
    words = 'Internal error occurred: failed calling webhook "pods.example": connection refused'
    async with answering(500, a_status(words)) as api:
        with pytest.raises(errors.AdmissionUnavailableError) as refused:
            await create(api)
    assert (refused.value.message, refused.value.status) == (words, 500)


async def test_a_pause_that_an_admission_webhook_asks_for_is_its_tenants_alone() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({})
        denial = a_status('admission webhook "slow.example" denied the request: later')
        return web.Response(status=429, text=denial, headers={"Retry-After": "60"})

    async with serving(answer) as api, asyncio.timeout(10):
        with pytest.raises(errors.ForbiddenError):
            await create(api)
        await get(api)


async def test_a_watch_that_is_ended_ends_and_the_next_one_selects_anew() -> None:
    selected, asked, silent = "first", [], asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.query["labelSelector"])
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "BOOKMARK", "object": {}}\n')
        await silent.wait()
        return response

    async with serving(answer, selector=lambda: selected) as api:
        events = api.watch(Kind.POD, None, "7", 300)
        assert await anext(events) == {"type": "BOOKMARK", "object": {}}
        selected = "second"
        api.end_watches()
        async with asyncio.timeout(5):
            assert [event async for event in events] == []
            await anext(api.watch(Kind.POD, None, "7", 300))
        silent.set()
    assert asked == ["first", "second"]


async def test_however_many_watches_there_are_calls_find_a_connection() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"name": "mnist-worker-0"}})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "BOOKMARK", "object": {}}\n')
        await silent.wait()
        return response

    silent = asyncio.Event()
    async with serving(answer) as api, asyncio.timeout(10):
        watches = [api.watch(Kind.POD, f"team-{i}", "7", 300) for i in range(100)]
        for watch in watches:
            await anext(watch)
        assert await get(api)
        silent.set()


async def test_a_watch_asks_whether_a_silent_server_is_still_there() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        server.append(request.transport.get_extra_info("sockname")[1])
        await response.write(b'{"type": "BOOKMARK", "object": {}}\n')
        await silent.wait()
        return response

    server: list[int] = []
    silent = asyncio.Event()
    async with serving(answer) as api, asyncio.timeout(10):
        watch = api.watch(Kind.POD, None, "7", 300)
        await anext(watch)
        timer, hundredths = _timer_of_connection_to(server[0])
        assert (timer, hundredths <= 2000) == (_KEEPALIVE_TIMER, True)
        silent.set()


_KEEPALIVE_TIMER = 2
"""In /proc/net/tcp."""


def _timer_of_connection_to(port: int) -> tuple[int, int]:
    """Return which timer the kernel has for the connection, and its time in 1/100 s."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, _, timer, *_ = line.split()
        if int(remote.rpartition(":")[2], 16) == port and state == "01":
            active, _, hundredths = timer.partition(":")
            return int(active, 16), int(hundredths, 16)
    raise AssertionError(port)


async def test_a_watch_that_is_ended_before_it_is_answered_tells_nothing() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        asked.set()
        await answered.wait()
        return web.Response(body=b'{"type": "BOOKMARK", "object": {}}\n')

    async with serving(answer) as api:
        events = asyncio.create_task(anext(api.watch(Kind.POD, None, "7", 300), None))
        await asked.wait()
        api.end_watches()
        answered.set()
        async with asyncio.timeout(5):
            assert await events is None


class Jobs:
    """A server that tells of no jobs, and selects them by their bucket if its CRD can."""

    def __init__(self) -> None:
        self.selects = True
        self.asked: list[tuple[str, str]] = []
        """What was asked: list or watch, and the field selector."""

    async def answer(self, request: web.Request) -> web.Response:
        what = "watch" if "watch" in request.query else "list"
        selector = request.query.get("fieldSelector", "")
        self.asked.append((what, selector))
        assert "labelSelector" not in request.query, "jobs are their users'"
        if selector and not self.selects:
            message = "field label not supported: status.bucket"
            return web.Response(status=400, text=a_status(message))
        if what == "watch":
            return web.Response()
        metadata = {"resourceVersion": "7"}
        return web.json_response({"kind": "List", "metadata": metadata, "items": []})


async def list_and_watch(api: KubernetesApi) -> None:
    found = await api.list(Kind.JOB, "default")
    async for _event in api.watch(Kind.JOB, "default", found.resource_version, 60):
        pass


async def test_jobs_are_selected_by_their_bucket_if_they_are_shared() -> None:
    jobs = Jobs()
    async with serving(jobs.answer) as api:
        await list_and_watch(api)
    assert jobs.asked == [("list", ""), ("watch", "")]
    jobs = Jobs()
    async with serving(jobs.answer, job_selector=lambda: "status.bucket!=1") as api:
        await list_and_watch(api)
    assert jobs.asked == [("list", "status.bucket!=1"), ("watch", "status.bucket!=1")]


async def test_with_a_crd_that_knows_no_buckets_all_jobs_are_read_until_it_is_upgraded() -> None:
    jobs, mine = Jobs(), "status.bucket!=1"
    async with serving(jobs.answer, job_selector=lambda: mine) as api:
        jobs.selects = False
        await list_and_watch(api)
        assert jobs.asked == [("list", mine), ("list", ""), ("watch", "")]

        jobs.asked, jobs.selects = [], True
        await list_and_watch(api)
        assert jobs.asked == [("list", mine), ("watch", mine)]


async def test_a_watch_that_selects_by_what_a_crd_does_not_know_has_to_list_again() -> None:
    jobs = Jobs()
    async with serving(jobs.answer, job_selector=lambda: "status.bucket!=1") as api:
        await list_and_watch(api)
        jobs.selects = False
        with pytest.raises(errors.InvalidObjectError):
            await anext(api.watch(Kind.JOB, "default", "7", 60))
        await list_and_watch(api)
    assert jobs.asked[-2:] == [("list", ""), ("watch", "")]
