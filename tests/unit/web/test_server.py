"""The server and its watch, over real sockets, with an API server that says what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tftraining.cluster.watching import Kind, changes
from tftraining.errors import (
    ForbiddenError,
    InputError,
    NotFoundError,
    TFTrainingError,
    UnreachableError,
)
from tftraining.view import describe
from tftraining.view.why import why
from tftraining.web import details, jobs
from tftraining.web import source as sources
from tftraining.web.server import HEADERS, application, served
from tftraining.web.source import Source
from tftraining_operator.api.keys import Role
from tftraining_operator.core import bounds
from tftraining_operator.core.job import parse_job

from tests.unit.builders import Raw, a_job, a_pod, at, stamp
from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

UP_TO_DATE = 'main id="content" tabindex="-1"><h1>'
"""How a page begins that tells of no problem."""
JOBS = "/apis/tftraining.dev/v1alpha1/tftrainingjobs"


@dataclass
class Api:
    """The calls of a namespace: a list, watches as a test feeds them, pods and events."""

    namespace: str = "default"
    jobs: list[Raw] = field(default_factory=list)
    refused: str = ""
    """Why pods may not be read."""
    forbidden: str = ""
    """Why nothing may be read."""
    away: str = ""
    """Why it does not answer."""
    pods: list[Raw] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    """Set unless it lets those wait who ask for pods."""
    watched: queue.Queue[list[str | Exception]] = field(default_factory=queue.Queue)
    """What each watch says, one after the other."""
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers.set()

    def call(self, method: str, path: str, **options: Any) -> Raw:
        assert (method, options.get("body")) == ("GET", None)
        self.asked.append((path, options.get("query") or {}))
        if self.away:
            raise UnreachableError(self.away)
        if self.forbidden:
            raise ForbiddenError(self.forbidden)
        if path.endswith("tftrainingjobs"):
            return {"metadata": {"resourceVersion": "7"}, "items": self.jobs}
        if self.refused:
            raise TFTrainingError(self.refused)
        self.answers.wait()
        return {"items": self.pods if path.endswith("/pods") else []}

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        self.asked.append((path, query))
        said = self.watched.get()

        def told() -> Iterator[str]:
            for each in said:
                if isinstance(each, Exception):
                    raise each
                yield each

        yield told()

    def execute(self, pod: str, container: str, command: Sequence[str]) -> Any:
        raise AssertionError((pod, container, command))

    def says(self, *lines: str | Exception) -> None:
        self.watched.put(list(lines))


def an_event(kind: str, job: Raw, version: str = "8") -> str:
    metadata = {**job["metadata"], "resourceVersion": version}
    return json.dumps({"type": kind, "object": {**job, "metadata": metadata}})


# ---- the watch ----------------------------------------------------------------------------------


def test_a_watch_goes_on_where_the_last_one_ended() -> None:
    api, job = Api(jobs=[a_job().raw]), a_job().raw
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "11"}}}
    api.says(an_event("ADDED", job, "9"), an_event("DELETED", job, "10"), json.dumps(bookmark))
    api.says('{"type": "ERROR", "object": {"code": 410}}')
    kinds = [change.kind for change in changes(api, everywhere=True)]
    assert kinds == [Kind.LISTED, Kind.SEEN, Kind.GONE, Kind.HEARD, Kind.HEARD]
    versions = [query.get("resourceVersion") for path, query in api.asked if path == JOBS]
    assert versions == [None, "7", "11"]


class Paged(Api):
    """Lists one job at a time."""

    def call(self, method: str, path: str, **options: Any) -> Raw:
        whole = super().call(method, path, **options)
        at = int((options.get("query") or {}).get("continue", "0"))
        last = at + 1 == len(whole["items"])
        metadata = {**whole["metadata"], "continue": "" if last else str(at + 1)}
        return {"metadata": metadata, "items": whole["items"][at : at + 1]}


def test_jobs_are_listed_in_parts_and_cut_to_what_is_read() -> None:
    large = a_job().named("large", uid="uid-2").raw
    large["spec"]["template"]["metadata"] = {"annotations": {"x": "y" * bounds.MOST_BYTES}}
    small = a_job().raw
    small["metadata"]["managedFields"] = [{"manager": "tftj"}]
    api = Paged(jobs=[small, large])
    api.says(an_event("MODIFIED", large), '{"type": "ERROR", "object": {"code": 410}}')
    listed, changed = changes(api, everywhere=True)
    assert listed.kind is Kind.LISTED
    assert listed.jobs[0] == a_job().raw
    for job in (listed.jobs[1], changed.jobs[0]):
        assert len(json.dumps(job)) < 1000
        assert f"may have {bounds.MOST_BYTES}" in why(job, [], [], at(10)).text
    assert {query["limit"] for _, query in api.asked if "watch" not in query} == {"100"}


def test_one_namespace_is_watched_alone() -> None:
    api = Api("vision")
    api.says('{"type": "ERROR", "object": {}}')
    list(changes(api, everywhere=False))
    path = "/apis/tftraining.dev/v1alpha1/namespaces/vision/tftrainingjobs"
    assert {asked for asked, _ in api.asked} == {path}


def test_a_line_that_is_cut_off_ends_the_watch() -> None:
    api = Api()
    api.says('{"type": "ADD')
    with pytest.raises(UnreachableError):
        list(changes(api, everywhere=True))


# ---- the server ---------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def browser(*apis: Api, **options: Any) -> AsyncIterator[Callable[..., Any]]:
    """Serve all namespaces, or those of several; give a function that asks for a path."""
    named = {api.namespace: api for api in apis} if len(apis) > 1 else {}
    source = Source(lambda namespace: named.get(str(namespace), apis[0]), list(named))
    app = application(source, **options)
    async with served(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:

        async def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, str, Any]:
            url = f"http://127.0.0.1:{port}{path}"
            async with session.request(method, url, headers=headers) as answer:
                return answer.status, await answer.text(), answer.headers

        yield ask


async def until(ask: Callable[..., Any], path: str, words: str) -> str:
    """Ask until the answer has these words."""
    for _ in range(100):
        _, text, _ = await ask(path)
        if words in text:
            return str(text)
        await asyncio.sleep(0.02)
    raise AssertionError(f"no {words!r} in {text}")


async def test_what_the_watch_tells_is_shown_at_once() -> None:
    api, job = (
        Api(jobs=[a_job().raw]),
        a_job().with_status(state="Running", observed_generation=1).raw,
    )
    async with browser(api) as ask:
        assert "Unseen" in await until(ask, "/", "mnist")
        api.says(an_event("MODIFIED", job))
        await until(ask, "/", "Running")
        assert "<h1>mnist</h1>" in await until(ask, "/jobs/default/mnist", "Running")
        api.says(an_event("DELETED", job))
        await until(ask, "/", "0 training, 0 waiting, 0 ended")
        status, text, _ = await ask("/jobs/default/mnist")
        assert (status, "There is no job mnist in namespace default" in text) == (404, True)


async def test_jobs_are_parsed_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand take seconds, for which no page was answered, and no probe of the process."""
    threads: set[threading.Thread] = set()

    def parsed(*given: Any) -> Any:
        threads.add(threading.current_thread())
        return parse_job(*given)

    monkeypatch.setattr(jobs, "parse_job", parsed)
    api, running = Api(jobs=[a_job().raw]), a_job().with_status(state="Running").raw
    async with browser(api) as ask:
        await until(ask, "/", "Unseen")
        api.says(an_event("MODIFIED", running))
        await until(ask, "/", "Running")
    assert threads
    assert threading.main_thread() not in threads


async def test_a_loss_that_is_no_number_takes_no_other_job_from_the_page() -> None:
    """Somebody may edit the status; the page of all jobs began never then."""
    odd, other = a_job().named("odd", uid="uid-odd").raw, a_job().named("other", uid="uid-2").raw
    odd["status"] = {"progress": {"step": 1, "loss": "n/a", "updatedAt": stamp()}}
    async with browser(Api(jobs=[odd, other])) as ask:
        await until(ask, "/", "other")
        assert "odd" in await until(ask, "/", UP_TO_DATE)


@pytest.mark.parametrize(
    "path", ["/", "/namespaces/x", "/jobs/x/y", "/static/page.js", "/absent", "/healthz"]
)
async def test_every_answer_forbids_scripts_of_others_frames_and_cookies(path: str) -> None:
    async with browser(Api()) as ask:
        _, _, headers = await ask(path)
        assert HEADERS.items() <= dict(headers).items()
        assert "Set-Cookie" not in headers
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Content-Security-Policy"].startswith("default-src 'none';")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_nothing_can_be_sent(method: str) -> None:
    async with browser(Api()) as ask:
        for path in ("/", "/jobs/default/mnist", "/static/page.css"):
            status, _, headers = await ask(path, method)
            assert (status, headers["Allow"]) == (405, "GET,HEAD")
            assert HEADERS.items() <= dict(headers).items()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("[::1]", 200),
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("jobs.example.com", 200),
        ("jobs.example.com:443", 200),
        ("evil.example.com", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("localhost.evil.example.com:8080", 421),
    ],
)
async def test_only_known_host_names_are_answered(host: str, status: int) -> None:
    async with browser(Api(), hosts=["jobs.example.com"]) as ask:
        found, text, headers = await ask("/", Host=host)
        assert found == status
        assert ("add it to the chart's web.hosts" in text) is (status == 421)
        assert "Content-Security-Policy" in headers


async def test_a_path_that_is_not_known_shows_nothing() -> None:
    api = Api(jobs=[a_job().raw])
    async with browser(api, path="secret") as ask:
        await until(ask, "/secret/", "mnist")
        for path in ("/", "/jobs/default/mnist", "/static/page.js", "/other/", "/readyz"):
            status, text, _ = await ask(path)
            assert (status, "mnist" in text) == (404, False)


async def test_an_unchanged_page_is_not_sent_again() -> None:
    async with browser(Api()) as ask:
        await until(ask, "/", "0 waiting")
        await until(ask, "/readyz", "ok")
        status, text, headers = await ask("/")
        assert status == 200
        status, text, _ = await ask("/", **{"If-None-Match": headers["ETag"]})
        assert (status, text) == (304, "")


async def test_a_cluster_that_is_away_is_told_and_jobs_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "_FIRST_RETRY", 0.02)
    api = Api(jobs=[a_job().raw])
    async with browser(api) as ask:
        await until(ask, "/", "mnist")
        api.away = "cannot reach the cluster at https://api"
        api.says(UnreachableError("the connection to the cluster broke"))
        text = await until(ask, "/", "Not up to date: cannot reach the cluster at https://api")
        assert "mnist" in text
        api.away = ""
        text = await until(ask, "/", UP_TO_DATE)
        assert "mnist" in text


async def test_the_watch_goes_on_after_what_nobody_expects(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sources, "_FIRST_RETRY", 0.02)
    api, job = Api(jobs=[a_job().raw]), a_job().raw
    async with browser(api) as ask:
        await until(ask, "/", "mnist")
        api.says('{"type": "MODIFIED"}')
        api.says(an_event("DELETED", job))
        await until(ask, "/", "0 training, 0 waiting, 0 ended")
        assert (await ask("/healthz"))[0] == 200
    (record,) = [each for each in caplog.records if each.name == sources.__name__]
    assert record.exc_info is not None
    assert "the watch of all namespaces ended unexpectedly" in record.message


async def test_it_is_ready_when_the_jobs_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()

    def call(*_: object, **__: object) -> Raw:
        raise NotFoundError("the server could not find the requested resource")

    monkeypatch.setattr(api, "call", call)
    async with browser(api) as ask:
        await until(ask, "/readyz", "could not find")
        assert (await ask("/readyz"))[0] == 503
        assert (await ask("/healthz"))[0] == 200


async def test_a_namespace_that_may_not_be_read_takes_no_other_from_the_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who may delete the page's Role in one namespace must not end the page for all."""
    monkeypatch.setattr(sources, "_FIRST_RETRY", 0.02)
    monkeypatch.setattr(sources, "_LAST_RETRY", 0.02)
    told = 'tftrainingjobs is forbidden: User "x" cannot list in the namespace "red"'
    red, blue = Api("red", forbidden=told), Api("blue", jobs=[a_job().raw])
    async with browser(red, blue) as ask:
        text = await until(ask, "/", "mnist")
        await until(ask, "/readyz", "cannot list in the namespace")
        assert (await ask("/readyz"))[0] == 200
        text = await until(ask, "/", "Not up to date: tftrainingjobs is forbidden")
        assert "mnist" in text
        await asyncio.sleep(0.2)
        assert [r.message for r in caplog.records].count(f"jobs are not shown: {told}") == 1

        blue.away = "cannot reach the cluster at https://api"
        blue.says(UnreachableError("the connection to the cluster broke"))
        await until(ask, "/", "Not up to date: cannot reach the cluster")
        blue.away = red.forbidden = ""
        await until(ask, "/readyz", "ok")


async def test_jobs_that_may_no_longer_be_read_are_no_longer_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who takes the page's Role away in a namespace wants its jobs seen no more."""
    monkeypatch.setattr(sources, "_FIRST_RETRY", 0.02)
    monkeypatch.setattr(sources, "_LAST_RETRY", 0.02)
    red = Api("red", jobs=[a_job().named("secret").raw])
    blue = Api("blue", jobs=[a_job().raw])
    async with browser(red, blue) as ask:
        await until(ask, "/", "secret")
        red.forbidden = "tftrainingjobs is forbidden"
        red.says(UnreachableError("the connection to the cluster broke"))
        text = await until(ask, "/", "Not up to date: tftrainingjobs is forbidden")
        assert ("mnist" in text, "secret" in text) == (True, False)
        assert (await ask("/jobs/default/secret"))[0] == 404
        red.forbidden = ""
        await until(ask, "/", "secret")


async def test_a_job_that_cannot_be_read_is_not_said_to_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "_FIRST_RETRY", 0.02)
    red, blue = Api("red", forbidden="tftrainingjobs is forbidden"), Api("blue")
    async with browser(red, blue) as ask:
        text = await until(ask, "/jobs/red/mnist", "Not up to date: tftrainingjobs is forbidden")
        assert "job mnist in namespace red" in text
        assert "never existed" not in text
        await until(ask, "/jobs/blue/mnist", "it was deleted, or never existed")
        assert "forbidden" not in (await ask("/jobs/blue/mnist"))[1]
        await until(ask, "/jobs/elsewhere/mnist", "Namespace elsewhere is not shown here")


async def test_it_is_not_ready_while_no_namespace_may_be_read() -> None:
    async with browser(Api("red", forbidden="no"), Api("blue", forbidden="no")) as ask:
        await until(ask, "/readyz", "Not up to date: no")
        assert (await ask("/readyz"))[0] == 503


async def test_pods_and_events_are_asked_for_once_however_many_look() -> None:
    api = Api(jobs=[a_job().raw])
    async with browser(api) as ask:
        await until(ask, "/", "mnist")
        await asyncio.gather(*(ask("/jobs/default/mnist") for _ in range(5)))
        paths = [path for path, _ in api.asked if path.startswith("/api/v1/")]
        assert sorted(paths) == [
            "/api/v1/namespaces/default/events",
            "/api/v1/namespaces/default/pods",
        ]


async def test_an_api_server_that_does_not_answer_leaves_what_was_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(details, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(details, "_PATIENCE_SECONDS", 0.1)
    job = a_job()
    api = Api(jobs=[job.raw], pods=[a_pod(job.build(), Role.CHIEF).running().raw])
    async with browser(api) as ask:
        await until(ask, "/", "mnist")
        await until(ask, "/jobs/default/mnist", "mnist-chief-0")
        api.answers.clear()
        try:
            for _ in range(2):
                _, text, _ = await asyncio.wait_for(ask("/jobs/default/mnist"), 5)
                assert "Pods and events are not up to date: the API server does not" in text
                assert "mnist-chief-0" in text
        finally:
            api.answers.set()
        assert "not up to date" not in (
            await until(ask, "/jobs/default/mnist", 'main id="content" tabindex="-1"><h1>')
        )
        api.refused = "forbidden"
        assert "mnist-chief-0" in await until(ask, "/jobs/default/mnist", "cannot be read: forb")


def test_a_read_that_hangs_does_not_keep_the_process_from_ending() -> None:
    api, job = Api(), a_job().raw
    api.answers.clear()
    release = threading.Timer(10, api.answers.set)
    release.start()

    async def look() -> None:
        task = asyncio.create_task(Source(lambda _: api, ()).details(job))
        await asyncio.sleep(0.1)
        task.cancel()

    began = time.monotonic()
    asyncio.run(look())
    assert time.monotonic() - began < 5
    release.cancel()
    api.answers.set()


async def test_the_details_of_a_job_are_slim_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "_KEPT_SECONDS", 0.1)
    job = a_job()
    pod = a_pod(job.build(), Role.CHIEF).running().raw
    pod["spec"]["containers"][0]["args"] = ["x" * 100_000]
    pod["status"]["containerStatuses"][0]["restartCount"] = 3
    reader = details.DetailsReader(lambda _: Api(pods=[pod]))
    found = await reader.details(job.raw)
    assert len(json.dumps(found.pods)) < 2000
    assert describe.pod_rows(job.build(), found.pods, at(10))[0][2] == "3"
    assert reader._looked
    await asyncio.sleep(0.3)
    assert not reader._looked


async def test_pods_that_may_not_be_read_leave_the_rest() -> None:
    api = Api(jobs=[a_job().raw], refused='pods is forbidden: User "x" cannot list')
    async with browser(api) as ask:
        await until(ask, "/", "mnist")
        _, text, _ = await ask("/jobs/default/mnist")
        assert "Pods and events cannot be read: pods is forbidden" in text
        assert "ParameterServer: chief, worker, ps" in text


async def test_a_port_that_is_taken_is_named() -> None:
    port = free_port()
    app = application(Source(lambda _: Api(), ()))
    async with served(app, "127.0.0.1", port):
        other = application(Source(lambda _: Api(), ()))
        with pytest.raises(InputError, match=f"cannot serve on port {port}: .* in use"):
            async with served(other, "127.0.0.1", port):
                pass
