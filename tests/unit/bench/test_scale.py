"""What bench/scale counts, how it knows that all is there, and how it says what is missing."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tftraining_operator.api.keys import Role
from tftraining_operator.controller.progress_request import ask
from tftraining_operator.core import desired
from tftraining_operator.core.pod_state import is_ready, progress_url
from tftraining_operator.core.progress import parse_report
from tftraining_operator.reconcile.store import Kind
from typer.testing import CliRunner

from bench.scale import report, reports
from bench.scale.__main__ import app
from bench.scale.audit import Mark, Requests
from bench.scale.client import Client
from bench.scale.disturbances import chosen
from bench.scale.life import Life
from bench.scale.player import Player, running
from bench.scale.results import Results
from bench.scale.scrapes import scraped
from bench.scale.sizing import sizing
from bench.scale.tables import StalledError, Table, all_of, at_least, created_since, none_of
from tests.unit.builders import IMAGE, a_job
from tools.cluster.shell import ClusterError
from tools.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("Status",)


def entry(agent: str, verb: str, resource: str, **more: Any) -> str:
    about = {"resource": resource} | more.pop("about", {})
    return json.dumps({"userAgent": agent, "verb": verb, "objectRef": about, **more}) + "\n"


def test_requests_are_counted_by_agent_and_by_what_they_do(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(entry("ours/1", "create", "pods"))
    begin = Mark(log, log.stat().st_size)
    with log.open("a") as out:
        out.write(entry("ours/1", "create", "pods"))
        out.write(entry("ours/1", "create", "pods", requestURI="/api/v1/pods?dryRun=All"))
        out.write(entry("ours/1", "patch", "jobs", about={"subresource": "status"}))
        out.write(entry("watcher/2", "watch", "pods"))
        out.write(entry("theirs/3", "create", "pods"))
    end = Mark(log, log.stat().st_size)
    log.write_text(log.read_text() + entry("ours/1", "delete", "pods"))
    found = begin.since(end, ("ours", "watcher"))
    assert found.writes == {"create pods": 1, "create pods, dry run": 1, "patch jobs/status": 1}
    assert found.reads == {"watch pods": 1}


def test_the_end_of_a_job_costs_what_is_asked_for_its_objects_from_its_chiefs_exit(
    tmp_path: Path,
) -> None:
    log = tmp_path / "audit.log"
    with log.open("w") as out:
        for name, seconds in (
            ("job-1", 1),
            ("job-1", 3),
            ("job-1-worker-0", 4),
            ("job-1.17a", 5),
            ("job-10", 6),
            ("job-2", 7),
        ):
            moment = f"2026-01-02T03:04:{seconds:02}.000000Z"
            what = {"about": {"name": name}, "requestReceivedTimestamp": moment}
            out.write(entry("ours/1", "patch", "things", **what))
        for job, seconds in (("job-1", 4), ("job-10", 5), ("job-2", 6)):
            what = {
                "requestReceivedTimestamp": f"2026-01-02T03:04:{seconds:02}.000000Z",
                "requestURI": f"/pods?labelSelector=tftraining.dev%2Fjob%3D{job}%2Ca+in+%28b%29",
            }
            out.write(entry("ours/1", "deletecollection", "pods", **what))
    ended = {"job-1": "2026-01-02T03:04:02.000000Z", "job-2": "2026-01-02T03:04:08.000000Z"}
    found = Mark(log, 0).since(Mark(log, log.stat().st_size), ("ours",), ended)
    assert found.writes == {"patch things": 3, "deletecollection pods": 1}


def row(kind: str, name: str, status: str, *, first: bool = False) -> dict[str, Any]:
    columns = [{"name": "Name"}, {"name": "Ready"}, {"name": "Status"}]
    head = {"columnDefinitions": columns} if first else {}
    rows = [{"cells": [name, "1/1", status]}]
    return {"type": kind, "object": {"kind": "Table", **head, "rows": rows}}


def listing(**objects: str) -> dict[str, Any]:
    columns = [{"name": "Name"}, {"name": "Status"}]
    return {"columnDefinitions": columns, "rows": [{"cells": each} for each in objects.items()]}


async def test_objects_are_counted_by_what_they_show_now() -> None:
    table = Table("pods")
    table.take(row("ADDED", "a", "Pending", first=True), COLUMNS)
    table.take(row("ADDED", "b", "Pending"), COLUMNS)
    await table.until(at_least(2, "pods"))
    table.take(row("MODIFIED", "a", "Running"), COLUMNS)
    await table.until(at_least(1, "running pods", ("Running",)))
    await table.until(all_of(["a"], "a runs", ("Running",)))
    assert str(table) == "pods: 1 Pending, 1 Running (a)"
    table.take(row("DELETED", "b", "Pending"), COLUMNS)
    await table.until(none_of(["b"], "b is gone"))
    table.take(row("DELETED", "a", "Running"), COLUMNS)
    await table.until(none_of(None, "all are gone"))


async def test_a_listing_after_a_lost_watch_tells_what_has_come_and_gone_meanwhile() -> None:
    table = Table("pods")
    table.take_listing(listing(a="Running", b="Running"), COLUMNS)
    moments = dict(table.appeared)
    table.take_listing(listing(b="Running", c="Pending"), COLUMNS)
    assert str(table) == "pods: 1 Running, 1 Pending (c)"
    assert table.appeared["b"] == moments["b"]
    table.take(row("ADDED", "a", "Pending", first=True), COLUMNS)
    await table.until(created_since({"a": moments["a"]}, "a is replaced"))


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_listing_for_which_the_server_has_no_time_is_asked_again(*, hangs_up: bool) -> None:
    answers = [
        web.Response(status=504),
        web.Response(status=504),  # aiohttp itself asks twice
        web.json_response({"metadata": {"resourceVersion": "1"}, **listing(a="Running")}),
    ]

    async def answer(request: web.Request) -> web.Response:
        if "watch" in request.query:
            await asyncio.sleep(60)
        found = answers.pop(0)
        if hangs_up and answers and request.transport is not None:
            request.transport.abort()
        return found

    app = web.Application()
    app.router.add_get("/pods", answer)
    table = Table("pods")
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        client = Client(session, str(server.make_url("")).rstrip("/"))
        async with table.follow(client, "/pods", COLUMNS):
            await table.until(at_least(1, "running pods", ("Running",)))
    assert not answers


async def test_a_collection_is_deleted_though_the_server_gives_up_in_the_midst() -> None:
    left = ["hangs up", "504", "deletes"]

    async def answer(request: web.Request) -> web.Response:
        does = left.pop(0)
        if does == "hangs up" and request.transport is not None:
            request.transport.abort()
        return web.json_response({}, status=504 if does == "504" else 200)

    app = web.Application()
    app.router.add_delete("/jobs", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        await Client(session, str(server.make_url("")).rstrip("/")).delete("/jobs")
    assert not left


async def test_who_waits_for_what_does_not_come_is_told_what_is_there() -> None:
    table = Table("jobs", quiet=0.01)
    table.take_listing(listing(a="Running", b="Running", c="Starting"), COLUMNS)
    with pytest.raises(StalledError, match="3 jobs Running: not within") as raised:
        await table.until(at_least(3, "jobs Running", ("Running",)))
    assert str(raised.value).endswith("there are jobs: 2 Running, 1 Starting (c)")


async def test_who_waits_does_so_while_anything_changes_beside() -> None:
    pods = Table("pods")
    table = Table("pods of the small job", quiet=0.5, beside=pods)
    waiting = asyncio.create_task(table.until(at_least(1, "pods of the small job")))
    for number in range(8):
        await asyncio.sleep(0.1)
        assert not waiting.done()
        pods.take_listing(listing(a=f"Running {number}"), COLUMNS)
    with pytest.raises(StalledError, match="nothing has changed for"):
        await waiting


async def test_rest_begins_when_nothing_has_changed_for_a_while() -> None:
    table = Table("pods")
    table.take_listing(listing(a="Running"), COLUMNS)
    began = time.perf_counter()
    await table.rest(0.05)
    assert time.perf_counter() - began >= 0.04
    await asyncio.wait_for(table.rest(0.05), 0.01)


async def test_who_waits_is_told_at_once_that_a_process_has_ended() -> None:
    found: list[str] = []
    table = Table("jobs", lambda: found[0] if found else None, quiet=0.05)
    waiting = asyncio.create_task(table.until(at_least(1, "jobs")))
    await asyncio.sleep(0)
    found.append("kwok of the cluster has ended")
    with pytest.raises(StalledError, match="kwok of the cluster has ended"):
        await waiting


@pytest.mark.parametrize(
    ("jobs", "failing", "ending"),
    [
        pytest.param(1, [0], [0], id="the only job fails and ends"),
        pytest.param(4, [0, 2], [1, 3], id="others fail than end"),
    ],
)
def test_which_jobs_are_disturbed(jobs: int, failing: list[int], ending: list[int]) -> None:
    assert chosen(jobs) == (failing, ending)


async def test_what_is_played_answers_as_the_operator_asks() -> None:
    loop = asyncio.get_running_loop()
    connection = partial(reports._Server, time.monotonic() - 60, frozenset({"127.0.0.2"}))
    server = await loop.create_server(connection, "0.0.0.0", 0)  # noqa: S104 - loopback
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(5):
        for address, role in (("127.0.0.1", "chief"), ("127.0.0.2", "evaluator")):
            status, text = await ask(f"http://{address}:{port}/progress")
            assert (status, json.loads(text or b"{}")["role"]) == (200, role)


async def test_a_pod_that_is_placed_runs_once_and_goes_when_it_is_deleted() -> None:
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: web.Request) -> web.Response:
        asked.put_nowait(f"{request.method} {request.path}")
        return web.json_response({}, status=404 if "gone" in request.path else 200)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        player = Player(Client(session, str(server.make_url("")).rstrip("/")))

        def see(name: str, node: dict[str, str], what: str, **metadata: str) -> None:
            containers = {"containers": [{"name": "tensorflow", "image": "any"}]}
            about = {"namespace": "n", "name": name, "uid": name} | metadata
            pod = {"metadata": about, "spec": containers | node, "status": {}}
            player.see(Kind.POD, pod, what)

        placed = {"nodeName": "node-1"}
        see("a", {}, "ADDED")
        see("a", placed, "MODIFIED")
        see("a", placed, "MODIFIED")
        see("gone", placed, "ADDED")
        see("b", placed, "MODIFIED", deletionTimestamp="2026-01-02T03:04:05Z")
        playing = asyncio.create_task(player.play())
        async with asyncio.timeout(5):
            done = [await asked.get() for _ in range(3)]
        playing.cancel()
    pods = "/api/v1/namespaces/n/pods"
    assert done == [
        f"PATCH {pods}/a/status",
        f"PATCH {pods}/gone/status",
        f"DELETE {pods}/b",
    ]


def test_a_pod_that_is_played_is_ready_at_its_address() -> None:
    job = a_job().build()
    raw = desired.pod(job, Role.CHIEF, 0, 0, IMAGE)
    raw["status"] = running(raw, "127.128.0.1", datetime.now(UTC))
    assert is_ready(raw)
    assert progress_url(job, raw, Role.CHIEF) == "http://127.128.0.1:8080/progress"


@pytest.mark.parametrize("seconds", [0.0, 30.0, 3000.0])
def test_the_reports_that_are_played_are_reports(seconds: float) -> None:
    trained = parse_report(json.dumps(reports.training(seconds)))
    evaluated = parse_report(json.dumps(reports.evaluation(seconds)))
    assert trained is not None
    assert evaluated is not None
    assert trained.step == 10 * seconds
    assert evaluated.step == (trained.last_checkpoint.step if trained.last_checkpoint else 0)


def a_life(seconds: float, **more: Any) -> Life:
    return Life(2, pods_exist=seconds, all_run=seconds + 1, deleted=1.0, **more)


def test_rounds_are_kept_in_a_file_and_a_later_run_adds_to_them(tmp_path: Path) -> None:
    file = tmp_path / "rounds.json"
    first = Results.of("raw", file)
    first.add("raw", 1, a_life(1.0))
    requests = Requests()
    requests.writes["create pods"] += 16
    first.add("ours", 1, a_life(1.5, cpu=0.1, requests=requests))
    later = Results.of("raw", file)
    assert later.lives == first.lives
    later.add("raw", later.last_round() + 1, a_life(4.0))
    later.add("ours", later.last_round(), a_life(4.4, cpu=0.2))
    assert Results.of("raw", file).ratios(2, "ours", "raw") == [1.5, 1.1]


def test_the_tables_compare_contenders_round_by_round_and_show_quantiles_of_all() -> None:
    results = Results("raw")
    for number, seconds in enumerate((1.0, 2.0, 10.0)):
        results.add("raw", number, a_life(seconds))
        replaced = [0.01 * (1 + each + 50 * number) for each in range(50)]
        results.add("ours", number, a_life(1.5 * seconds, cpu=0.2, replaced=replaced))
    text = report.markdown(results)
    assert "| 2 | ours | 3 | 3.0 s | 1.50 | 4.0 s | 100 ms |" in text
    assert "| 2 | ours | 3 | 760 ms | 1.5 s |" in text
    assert "| 2 | raw | 3 | 2.0 s | 1.00 |" in text


def test_what_a_job_costs_is_shared_by_the_small_one() -> None:
    requests = Requests()
    requests.writes["create pods"] += 24
    results = Results("raw")
    results.add("ours", 1, a_life(1.0, cpu=0.3, requests=requests, small=0.1))
    text = report.markdown(results)
    assert "| 1.0 s |  | 2.0 s | 100 ms | 8.0 | 0.0 | 100 ms |" in text
    assert "| 2 | ours | 8.0 create pods |" in text


def test_the_sizing_has_twice_what_was_used() -> None:
    results = Results("raw")
    results.add("raw", 1, a_life(1.0))
    for number, memory in enumerate((90.0, 100.0, 147.0)):
        results.add("ours", number, a_life(1.0, memory=memory, steady=0.197))
    assert sizing(results).splitlines()[-1] == ("| 2 | 100 MB | 19.7 % | 400m, 128Mi | 192Mi |")


def test_a_page_without_the_section_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Scale\n")
    done = CliRunner().invoke(app, ["--rounds=1", f"--page={page}", "--section=shards"])
    assert done.exit_code == 2
    assert "lacks the marks of the section" in re.sub(r"[│\s]+", " ", done.output)


def test_a_process_is_asked_for_its_metrics_meanwhile() -> None:
    asked = threading.Semaphore(0)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            asked.release()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with scraped(f"http://127.0.0.1:{server.server_port}/metrics", 0.01):
            for _ in range(2):
                assert asked.acquire(timeout=30)
        server.shutdown()


def test_a_process_that_answers_no_scrape_is_told_of() -> None:
    url = f"http://127.0.0.1:{free_port()}/metrics"
    with pytest.raises(ClusterError, match=f"{url} was not answered"), scraped(url, 0.01):
        time.sleep(0.2)
