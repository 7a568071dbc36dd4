"""The classics run as their manifests stand, and give the numbers that the guide states."""

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


def test_two_workers_give_the_curve_of_one_process(space: Space) -> None:
    (log,) = logs_of_chiefs(space, classic("exponential"))

    loss, apart = found(r"300 losses down to (\S+): those of one process differ by (\S+) of", log)
    assert float(loss) < 0.02
    assert 0 < float(apart) <= 1e-5
    assert space.status("exponential")["progress"]["step"] == 300


def test_programs_place_what_they_compute_and_add_it_up(space: Space) -> None:
    placement, sums = logs_of_chiefs(space, classic("placement"), classic("both-ways-sum"))

    # The program ends with 1 if a value or a device is wrong; so here the values, once, by hand.
    values = metrics(space, "placement")
    assert values["equal slices, weighted mean"] == values["unequal slices, weighted mean"] == 500.5
    assert values["unequal slices, mean of means"] == 417
    devices = {line.split()[-1] for line in placement.splitlines() if "/job:" in line}
    tasks = ("worker/replica:0/task:0", "worker/replica:0/task:1", "ps/replica:0/task:0")
    assert devices == {f"/job:{task}/device:CPU:0" for task in tasks}

    totals = [int(total) for total in re.findall(r"(\d+)   possible: ", sums)]
    assert len(totals) == 4
    assert totals.pop(2) in (9, 11, 15)
    assert totals == [15, 15, 15]


def test_two_replicas_learn_what_one_learns(space: Space) -> None:
    one = {"--batch-size=50": "--batch-size=100", "--logical-cpus=2": "--logical-cpus=1"}
    logs = logs_of_chiefs(
        space, classic("mirrored-mnist"), classic("mirrored-mnist", one, called="one-replica")
    )

    accuracies = [float(found(r"held-out accuracy (\S+),", log)[0]) for log in logs]
    assert min(accuracies) >= 0.951
    assert abs(accuracies[0] - accuracies[1]) <= 0.005


def test_keras_fit_and_the_custom_loop_learn_the_same(space: Space) -> None:
    loop = {"--mode=fit": "--mode=asynchronous"}
    logs_of_chiefs(space, classic("both-ways"), classic("both-ways", loop, called="custom-loop"))

    for name in ("both-ways", "custom-loop"):
        progress = space.status(name)["progress"]
        assert progress["step"] == progress["totalSteps"] > 0
        assert metrics(space, name)["accuracy"] >= 0.9, space.describe(name)


def test_each_ps_holds_half_of_the_table(space: Space) -> None:
    (log,) = logs_of_chiefs(space, classic("embedding"))

    held = re.findall(r"/job:ps/replica:0/task:(\d)/\S+ holds (\S+) MB of the model", log)
    assert held == [("0", "12.8"), ("1", "12.8")]
    assert float(found(r"held-out accuracy (\S+),", log)[0]) >= 0.75
