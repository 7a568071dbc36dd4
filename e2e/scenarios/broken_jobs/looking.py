"""Runs broken jobs on a cluster, each in a namespace of its own, and reads what a user reads."""

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import yaml

from e2e.scenarios.broken_jobs.broken_job import BrokenJob, Told, missing, missing_words
from e2e.scenarios.space import Space
from tools.cluster import Cluster, ClusterError

_Object = dict[str, Any]

_POLICIES = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
_SECONDS = 120
"""How long a mistake may take to show."""
_LOOKS, _PAUSE_SECONDS = 30, 1.0
"""How often to look from then on, until its event has come, and what the kubelet says of it."""


def told_of(
    cluster: Cluster,
    jobs: Sequence[BrokenJob],
    *,
    at_once: int,
    say: Callable[[str], None] = lambda _line: None,
) -> list[Told]:
    """Run jobs, several at once, and return what a user is told of each, in their order."""
    run = secrets.token_hex(2)
    spaces = [Space(cluster, f"broken-{broken.name}-{run}") for broken in jobs]
    made = [_namespace(space, broken) for space, broken in zip(spaces, jobs, strict=True)]
    cluster.kubectl("apply", "-f", "-", text_in=yaml.safe_dump_all(made))

    def look(space: Space, broken: BrokenJob) -> Told:
        try:
            told = _told(space, broken)
        finally:
            cluster.kubectl("delete", "namespace", space.name, "--wait=false")
        say(f"{broken.name}: {told.described}")
        return told

    try:
        with ThreadPoolExecutor(max_workers=at_once) as pool:
            return list(pool.map(look, spaces, jobs))
    finally:
        names = [space.name for space in spaces]
        # Some were not looked at if another one could not be.
        cluster.kubectl("delete", "namespace", *names, "--ignore-not-found", "--wait=false")
        for policies in _POLICIES:  # they are in no namespace
            cluster.kubectl("delete", policies, *names, "--ignore-not-found")


def _namespace(space: Space, broken: BrokenJob) -> _Object:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"} if broken.is_restricted else {}
    metadata = {"name": space.name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _told(space: Space, broken: BrokenJob) -> Told:
    """Return what a user is told when the mistake has shown, or after some minutes."""
    broken.bring(space, broken)
    has_state = f"--for=jsonpath={{.status.state}}={broken.state}"
    with suppress(ClusterError):  # it has another state, which is among what is missing
        space.kubectl("wait", f"tftj/{broken.name}", has_state, f"--timeout={_SECONDS}s")
    told = _look(space, broken)
    for _ in range(_LOOKS):
        if not missing(broken, told):
            break
        time.sleep(_PAUSE_SECONDS)
        told = _look(space, broken)
    return told


def _look(space: Space, broken: BrokenJob) -> Told:
    name = broken.name
    state, message = row(space.kubectl("get", "tftj", name, "-o", "wide"))
    return Told(
        state=state,
        message=message,
        described=_describe(space, name),
        event=_event(space, broken),
        conditions=tuple(space.status(name).get("conditions", ())),
    )


def row(shown: str) -> tuple[str, str]:
    """Return STATE and MESSAGE of the table of one job."""
    titles, row = shown.splitlines()
    state, message = titles.index("STATE"), titles.index("MESSAGE")
    return row[state:].split(" ", 1)[0], row[message:].strip()


def _describe(space: Space, name: str) -> str:
    """Return the first line of `tftj describe`."""
    done = space.tftj("describe", name)
    return (done.stdout or done.stderr).partition("\n")[0]


def _event(space: Space, broken: BrokenJob) -> str:
    """Return reason and first line of the first event that warns, or says the state; "" if none.

    Not what a slow machine adds: it is full for a moment, or its scheduler has not heard of a claim
    yet.
    """
    for event in space.events(broken.name):
        told = f"{event['reason']}: {event['message'].partition(chr(10))[0]}"
        passes = event["reason"] == "Unschedulable" and missing_words(broken, told)
        if not passes and (event["type"] == "Warning" or event["reason"] == broken.state):
            return told
    return ""
