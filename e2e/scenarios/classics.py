"""Runs the classics as their manifests stand, and reads what their chiefs say."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.scenarios.space import Space, example

_Object = dict[str, Any]


def classic(name: str, changes: Mapping[str, str] | None = None, *, called: str = "") -> _Object:
    """Return an example's job, with some of its arguments replaced under another name.

    Its pods ask for little, so that two jobs fit on a small node: one of which only some pods have
    room would wait for the others for ever.
    """
    (job,) = example(f"{name}.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"] = {"cpu": "10m", "memory": "200Mi"}
    given = changes or {}
    assert set(given) <= set(container["args"])
    container["args"] = [given.get(each, each) for each in container["args"]]
    job["metadata"]["name"] = called or name
    return job


def logs_of_chiefs(space: Space, *jobs: _Object) -> list[str]:
    """Run the jobs at the same time, to their good ends."""
    space.apply(*jobs)
    names = [job["metadata"]["name"] for job in jobs]
    for name in names:
        space.wait_for("Finished", name=name, seconds=300)
        assert space.condition("Succeeded", name).get("status") == "True", space.describe(name)
    return [space.logs(f"{name}-chief-0") for name in names]


def found(pattern: str, log: str) -> Sequence[str]:
    match = re.search(pattern, log)
    assert match is not None, f"the chief does not say {pattern!r}:\n{log}"
    return match.groups()


def metrics(space: Space, name: str) -> dict[str, float]:
    """Read the last metrics in a job's status."""
    reported = space.status(name)["progress"]["metrics"]
    return {metric["name"]: float(metric["value"]) for metric in reported}
