"""A HorizontalPodAutoscaler scales the workers by a metric of the training, then leaves them."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.custom_metrics import custom_metrics
from e2e.install import ROOT
from e2e.jobs import paced
from e2e.scenarios.conftest import program_or_skip
from e2e.scenarios.drill import Drill, now
from e2e.scenarios.space import Space, job
from tools.cluster import Cluster, ClusterError
from tools.custom_metrics import API
from tools.waiting import eventually

_Object = dict[str, Any]

_AUTOSCALER = ROOT / "examples/autoscaling/hpa.yaml"
_METRIC = "tftraining_worker_busy_ratio"
_SYNC_SECONDS = 15
"""How often the controller looks at an autoscaler."""
_SCALE_SECONDS = 120


@pytest.fixture(scope="session")
def adapter_program(cluster: Cluster) -> Path:
    return program_or_skip(cluster, "prometheus-adapter")


@pytest.fixture
def _metrics(cluster: Cluster, prometheus_program: Path, adapter_program: Path) -> Iterator[None]:
    """The metrics of jobs as the API server serves them."""
    with custom_metrics(cluster, prometheus_program, adapter_program):
        yield


def autoscaler(target: str) -> _Object:
    """Return the example for a job, from 1 to 4 workers, with windows of seconds."""
    found: _Object = yaml.safe_load(_AUTOSCALER.read_text())
    spec = found["spec"]
    found["metadata"]["name"] = spec["scaleTargetRef"]["name"] = target
    spec.update(minReplicas=1, maxReplicas=4)
    for change, window in (("scaleUp", 10), ("scaleDown", 60)):
        spec["behavior"][change]["stabilizationWindowSeconds"] = window
        for policy in spec["behavior"][change]["policies"]:
            policy["periodSeconds"] = _SYNC_SECONDS
    return found


def condition(space: Space, name: str, kind: str) -> tuple[str, str]:
    """Read status and reason of a condition of an autoscaler, empty if it is not there."""
    conditions = space.read(f"hpa/{name}").get("status", {}).get("conditions", [])
    found = (each for each in conditions if each["type"] == kind)
    return next(((each["status"], each["reason"]) for each in found), ("", ""))


def wanted(drill: Drill) -> list[int]:
    """Return the numbers of workers that the job was told to have, in order."""
    jobs = [each.thing for each in list(drill.record.jobs) if each.name == drill.job]
    numbers = [each["spec"]["worker"]["replicas"] for each in jobs]
    return [number for number, _ in itertools.groupby(numbers)]


def loads(space: Space) -> dict[str, float]:
    """Read the fraction of its time that each worker does not wait for data, by pod."""
    try:
        said = space.kubectl("get", "--raw", f"{API}/namespaces/{space.name}/pods/*/{_METRIC}")
    except ClusterError:
        return {}
    found = json.loads(said)["items"]
    return {each["describedObject"]["name"]: quantity(each["value"]) for each in found}


def quantity(written: str) -> float:
    """Read a number as the API writes it: 1, or 625m."""
    return float(written.removesuffix("m")) / (1000 if written.endswith("m") else 1)


@pytest.mark.usefixtures("_metrics")
def test_workers_are_added_while_they_are_busy_and_none_once_they_wait_for_data(
    drill: Drill,
) -> None:
    space = drill.space
    # One worker gets a batch while it trains on another. Two wait for the store half of the time.
    fed = paced(epochs=16, milliseconds=100, read_milliseconds=90, worker={"replicas": 1})
    suspended = job("suspended", worker={"replicas": 3}, runPolicy={"suspend": True})
    space.apply(suspended, autoscaler("suspended"), autoscaler("mnist"))
    drill.start(fed)
    chief = drill.incarnation(drill.pod("chief"))

    drill.wait_for_workers(2, _SCALE_SECONDS)
    drill.wait_until_back(drill.pod("chief"), chief, _SCALE_SECONDS)
    second = drill.incarnation(drill.pod("chief"))
    both = {drill.pod("worker", index).name for index in range(2)}
    eventually(lambda: loads(space).keys() == both, "both workers have a load", _SCALE_SECONDS)

    # By then the autoscaler has looked at them again.
    drill.wait_for_steps(_SCALE_SECONDS, since=now() + _SYNC_SECONDS)
    assert wanted(drill) == [1, 2], loads(space)
    assert drill.incarnation(drill.pod("chief")) == second
    status = space.status()
    assert (status["attempt"], status["restarts"]) == (1, 0)
    assert [each["reason"] for each in space.events()].count("Scaled") == 1
    assert condition(space, "mnist", "ScalingActive") == ("True", "ValidMetricFound")

    # What has no metric is not scaled to the minimum.
    assert condition(space, "suspended", "ScalingActive") == ("False", "FailedGetPodsMetric")
    assert space.read("tftj/suspended")["spec"]["worker"]["replicas"] == 3
    assert space.condition("Suspended", "suspended")["status"] == "True"
