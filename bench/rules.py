"""What the CRD's rules cost the API server, which evaluates them all at each write of a status.

    python -m bench.rules --rounds 5 --against ../another-checkout

CPU of the API server for a write, with the CRD of this checkout, that of another one, and without
rules. They take turns on the same API server.
"""

import copy
import json
import re
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from tftraining_operator.api.keys import API_VERSION, PLURAL

from bench.scale.contenders import Ours
from tests.apiserver import PROGRAMS, ApiServer, Response, running
from tools.cluster.binaries import binary
from tools.cluster.shell import ClusterError
from tools.pages import table

_Object = dict[str, Any]

ROOT = Path(__file__).parents[1]
_CRD = Path("crds") / "tftraining.dev_tftrainingjobs.yaml"
_JOBS = f"/apis/{API_VERSION}/namespaces/default/{PLURAL}"
_RULES = "x-kubernetes-validations"
_COUNT = 10
_WRITES = 2000
_WARM_UP = 200
_SERVED_SECONDS = 6.0
"""Until the API server, which does not say so, has compiled the rules of a changed CRD."""
_NOW = "2026-01-01T00:00:00Z"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    *,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    against: Annotated[Path | None, typer.Option(help="Another checkout with its CRD.")] = None,
) -> None:
    """Measure what the CRD's rules cost a write of a status."""
    own = yaml.safe_load((ROOT / _CRD).read_text())
    crds = {"without rules": _without_rules(own), "this checkout": own}
    if against is not None:
        crds["the other checkout"] = yaml.safe_load((against / _CRD).read_text())
    found: dict[str, list[float]] = {name: [] for name in crds}
    with running({name: binary(name) for name in PROGRAMS}) as server:
        _serve(server, own)
        _create(server)
        for _ in range(rounds):
            for name, crd in crds.items():
                _serve(server, crd)
                _write(server, _WARM_UP)
                before = _cpu(server)
                _write(server, _WRITES)
                found[name].append((_cpu(server) - before) / _WRITES * 1000)
    print(table(("CRD", "ms of CPU for a write of a status", "of the rounds"), _rows(found)))


def _rows(found: Mapping[str, list[float]]) -> list[tuple[str, str, str]]:
    return [
        (name, f"{statistics.median(each):.2f}", f"{min(each):.2f} to {max(each):.2f}")
        for name, each in found.items()
    ]


def _serve(server: ApiServer, crd: _Object) -> None:
    flags = ("--server-side", "--force-conflicts")
    server.kubectl("apply", *flags, "-f", "-", stdin=json.dumps(crd))
    time.sleep(_SERVED_SECONDS)


def _cpu(server: ApiServer) -> float:
    """Return the CPU seconds that the API server says it has used."""
    found = re.search(
        r"process_cpu_seconds_total ([0-9.e+]+)", server.request("GET", "/metrics").message
    )
    if found is None:
        raise ClusterError("the API server does not say how much CPU it has used")
    return float(found[1])


def _create(server: ApiServer) -> None:
    for path, job in Ours("").submission("default", _COUNT):
        _need(server.request("POST", path, job))


def _write(server: ApiServer, count: int) -> None:
    for number in range(count):
        progress = {"step": time.monotonic_ns(), "totalSteps": 2**62, "updatedAt": _NOW}
        path = f"{_JOBS}/job-{number % _COUNT}/status"
        patch = {"status": {"state": "Running", "conditions": _conditions(), "progress": progress}}
        kind = "application/merge-patch+json"
        _need(server.request("PATCH", path, patch, content_type=kind))


def _need(answer: Response) -> None:
    if not answer.ok:
        raise ClusterError(answer.message)


def _conditions() -> list[_Object]:
    return [
        {
            "type": kind,
            "status": "True",
            "reason": "Measured",
            "message": "",
            "lastTransitionTime": _NOW,
            "observedGeneration": 1,
        }
        for kind in ("Accepted", "PodsReady", "Running")
    ]


def _without_rules(crd: _Object) -> _Object:
    found = copy.deepcopy(crd)

    def strip(node: object) -> None:
        if isinstance(node, dict):
            node.pop(_RULES, None)
            for each in node.values():
                strip(each)
        elif isinstance(node, list):
            for each in node:
                strip(each)

    strip(found)
    return found


if __name__ == "__main__":
    sys.exit(app())
