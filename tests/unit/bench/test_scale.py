"""What bench/scale counts, and how it knows that all is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.scale.audit import Mark
from bench.scale.tables import Table, at_least

if TYPE_CHECKING:
    from pathlib import Path


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


def row(kind: str, name: str, status: str, *, first: bool = False) -> dict[str, Any]:
    columns = [{"name": "Name"}, {"name": "Ready"}, {"name": "Status"}]
    head = {"columnDefinitions": columns} if first else {}
    rows = [{"cells": [name, "1/1", status]}]
    return {"type": kind, "object": {"kind": "Table", **head, "rows": rows}}


async def test_objects_are_counted_by_what_they_show_now() -> None:
    table = Table()
    table._take(row("ADDED", "a", "Pending", first=True), ("Status",))
    table._take(row("ADDED", "b", "Pending"), ("Status",))
    await table.until(at_least(2))
    table._take(row("MODIFIED", "a", "Running"), ("Status",))
    await table.until(at_least(1, ("Running",)))
    assert str(table) == "1 Pending, 1 Running"
    table._take(row("DELETED", "b", "Pending"), ("Status",))
    table._take(row("DELETED", "a", "Running"), ("Status",))
    await table.until(lambda counts: not counts)
