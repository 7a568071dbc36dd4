"""Converts a shape with `tftj convert`, creates the result in a namespace, and waits for its end.

Where a manifest names an image of the people who have it, the trainer image runs.
"""

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from e2e.scenarios.space import Space
from e2e.scenarios.tfjobs.shapes import Shape
from e2e.scenarios.tfjobs.surroundings import Prepare
from tools.cluster import Cluster, ClusterError
from tools.cluster.images import image_name

_Object = dict[str, Any]

_SCRIPTS = Path(__file__).parent / "scripts"
_THEIR_IMAGES = "example.com/"
_JOBS = "tftrainingjob.tftraining.dev/"
_SECONDS = 300
"""How long a job may take on a machine that does much else."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a shape."""

    report: str
    """What `tftj convert --quiet` said."""
    jobs: tuple[_Object, ...] = ()
    """The converted jobs, as they were at their ends."""
    problem: str = ""
    """What the API server, or a command, refused."""

    @property
    def states(self) -> list[str]:
        """STATE of each job."""
        return [str((job.get("status") or {}).get("state")) for job in self.jobs]

    @property
    def message(self) -> str:
        """What the first job says."""
        return str((self.jobs[0].get("status") or {}).get("message")) if self.jobs else ""

    @property
    def seconds(self) -> float | None:
        """How long the jobs took, from the first one's start to the last one's end."""
        times = [job.get("status") or {} for job in self.jobs]
        if not times or not all("completionTime" in each for each in times):
            return None
        start = min(datetime.fromisoformat(each["startTime"]) for each in times)
        end = max(datetime.fromisoformat(each["completionTime"]) for each in times)
        return (end - start).total_seconds()


def wrong(shape: Shape, outcome: Outcome) -> list[str]:
    """Return what is not as it should be."""
    found = [outcome.problem] if outcome.problem else []
    expected = set() if shape.not_run or not shape.end else {shape.end}
    if set(outcome.states) != expected:
        found.append(f"ended {outcome.states}, not {shape.end}: {outcome.message}")
    if shape.words not in f"{outcome.report}\n{outcome.message}":
        found.append(f"neither report nor message say {shape.words!r}")
    return found


def outcomes(
    cluster: Cluster,
    shapes: Sequence[Shape],
    *,
    at_once: int,
    prepare: Prepare,
    say: Callable[[str], None] = lambda _line: None,
) -> list[Outcome]:
    """Convert and run shapes, several at once; return what became of them, in their order."""

    def run_one(shape: Shape) -> Outcome:
        with space_of(cluster, shape) as space:
            prepare(space, shape)
            found = run(space, shape)
        say(f"{shape.name}: {', '.join(wrong(shape, found)) or 'as expected'}")
        return found

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return list(pool.map(run_one, shapes))


@contextmanager
def space_of(cluster: Cluster, shape: Shape) -> Iterator[Space]:
    """Have a namespace that takes pods without any security context, as those of TFJobs do."""
    space = Space(cluster, f"tfjob-{shape.name}-{secrets.token_hex(2)}")
    cluster.kubectl("create", "namespace", space.name)
    try:
        yield space
    finally:
        cluster.kubectl("delete", "namespace", space.name, "--wait=false")


def run(space: Space, shape: Shape) -> Outcome:
    """Convert a shape, and run what came out in a namespace."""
    report, objects = _converted(space, shape)
    outcome = Outcome(report)
    if not shape.end:
        return outcome
    create = ("create", "--validate=strict", "-o", "name", "-f", "-")
    text = yaml.safe_dump_all(objects)
    try:
        if shape.not_run:
            space.kubectl(*create, "--dry-run=server", text_in=text)
            return outcome
        space.kubectl("create", "configmap", "scripts", f"--from-file={_SCRIPTS}")
        created = space.kubectl(*create, text_in=text).split()
        jobs = [name.removeprefix(_JOBS) for name in created if name.startswith(_JOBS)]
        for name in jobs:
            _finish(space, name)
        return replace(outcome, jobs=tuple(space.read(f"tftj/{name}") for name in jobs))
    except ClusterError as error:
        return replace(outcome, problem=str(error))


def _converted(space: Space, shape: Shape) -> tuple[str, list[_Object]]:
    """Return what `tftj convert` said, and the objects that it wrote, for this cluster."""
    program = space.tftj_command("convert")[:-1]  # it needs no namespace
    with TemporaryDirectory() as folder:
        words = [*program, "--quiet", f"--output={folder}", shape.path]
        done = subprocess.run(
            words, env=space.environment(), capture_output=True, text=True, check=False
        )
        texts = [path.read_text() for path in Path(folder).iterdir()]
    objects = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return done.stderr, [json.loads(_with_our_images(each)) for each in objects]


def _with_our_images(given: _Object) -> str:
    def replaced(part: _Object) -> _Object:
        if str(part.get("image")).startswith(_THEIR_IMAGES):
            return {**part, "image": image_name("trainer")}
        return part

    return json.dumps(json.loads(json.dumps(given), object_hook=replaced))


def _finish(space: Space, name: str) -> None:
    """Wait for the end of a job, or for long; it is resumed first if it is suspended."""
    if space.read(f"tftj/{name}")["spec"].get("runPolicy", {}).get("suspend"):
        space.wait_for("Suspended", name=name, seconds=_SECONDS)
        space.tftj("resume", name)
    with suppress(ClusterError):  # it has another state then, and says why
        space.kubectl("wait", f"tftj/{name}", "--for=condition=Finished", f"--timeout={_SECONDS}s")
