"""A job is reconciled by the same module in a local run and in a cluster, with the same outcome."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tftraining.cli.local.run import LocalRun
from tftraining.cli.local.tasks import Settings
from tftraining.errors import InputError
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import find
from tftraining_operator.reconcile.reconciler import Reconciler

from tests.unit.builders import JobBuilder, PodBuilder, a_job
from tests.unit.cli.local import LocalWorld
from tests.unit.cli.plans import PYTHON, a_manifest
from tests.unit.fakes import FakeCluster, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tftraining_operator.api.status import Status
    from tftraining_operator.reconcile.store import JobKey

Outcome = dict[str, tuple[str, str, str]]

BAD_MANIFESTS = [
    pytest.param(a_job().with_role("worker", replicas="two"), "InvalidSpec", id="a wrong type"),
    pytest.param(
        a_job().with_role("worker", replicas=-1, minReplicas=0),
        "InvalidSpec",
        id="two values out of range",
    ),
    pytest.param(a_job().with_workers(0), "InvalidSpec", id="a broken rule of the CRD"),
    pytest.param(
        a_job().with_container(name="main"), "InvalidSpec", id="no container named tensorflow"
    ),
    pytest.param(
        a_job().with_container(env=[{"name": "TF_CONFIG", "value": "{}"}]),
        "InvalidTemplate",
        id="a reserved variable",
    ),
    pytest.param(
        a_job().with_role(
            "worker", template={"metadata": {"labels": {"tftraining.dev/role": "chief"}}}
        ),
        "InvalidTemplate",
        id="a reserved label",
    ),
    pytest.param(
        a_job().with_container(ports="8080"), "InvalidTemplate", id="a list that is a string"
    ),
    pytest.param(
        a_job().with_role("ps", template={"spec": {"volumes": ["data"]}}),
        "InvalidTemplate",
        id="a list of strings in place of objects",
    ),
    pytest.param(
        a_job().with_container(securityContext=[]), "InvalidTemplate", id="a list for an object"
    ),
    pytest.param(
        a_job().with_role("chief", template={"spec": {"restartPolicy": "Always"}}),
        "InvalidTemplate",
        id="a field that the operator sets",
    ),
]


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


@pytest.fixture
def operator(runner: asyncio.Runner) -> Operator:
    return Operator(FakeCluster(), runner)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[JobKey]:
    """The keys of all passes of the reconciler, in either world."""
    keys: list[JobKey] = []
    reconcile = Reconciler.__call__

    async def counted(self: Reconciler, key: JobKey) -> float | None:
        keys.append(key)
        return await reconcile(self, key)

    monkeypatch.setattr(Reconciler, "__call__", counted)
    return keys


@pytest.fixture
def local(job: JobBuilder) -> Iterator[LocalWorld]:
    """A local run of the test's job."""
    with LocalWorld.of(job.raw) as world:
        yield world


def outcome(status: Status) -> Outcome:
    """Type, status, reason and message of every condition."""
    return {c.type: (c.status.value, c.reason, c.message) for c in status.conditions}


@pytest.mark.parametrize(("job", "reason"), BAD_MANIFESTS)
def test_a_bad_manifest_gets_the_same_conditions(
    job: JobBuilder, reason: str, operator: Operator, local: LocalWorld, passes: list[JobKey]
) -> None:
    key = operator.cluster.submit(job.raw)
    operator.settle()
    in_cluster = len(passes)
    local.settle()
    assert in_cluster > 0
    assert passes[in_cluster:] == [key] * in_cluster, "as many passes in the same module"
    assert outcome(local.loop.status) == outcome(operator.cluster.status(key))
    accepted = find(local.loop.status.conditions, ConditionType.ACCEPTED)
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", reason)
    assert local.kubelet.raw == {}, "no process is started"
    assert [(e.reason, e.note) for e in local.events] == [
        (e["reason"], e["note"]) for e in operator.cluster.events
    ]


@pytest.mark.parametrize(("job", "reason"), BAD_MANIFESTS)
def test_the_command_refuses_a_bad_manifest_before_it_starts_with_the_same_message(
    job: JobBuilder, reason: str, local: LocalWorld, tmp_path: Path
) -> None:
    local.settle()
    accepted = find(local.loop.status.conditions, ConditionType.ACCEPTED)
    assert accepted is not None
    assert accepted.reason == reason
    settings = Settings(python=PYTHON, checkpoints=None, logs=tmp_path)
    with pytest.raises(InputError) as refused:
        LocalRun(a_manifest(job), settings, tmp_path)
    lines = [line.removeprefix("job.yaml: ") for line in str(refused.value).splitlines()]
    assert "; ".join(lines) == accepted.message


CHIEF = "mnist-chief-0"


@pytest.mark.parametrize("job", [a_job()], ids=["a job"])
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="while it starts"),
        pytest.param(["run"], id="while it trains"),
        pytest.param(["run", lambda pod: pod.exited(0)], id="when the chief succeeds"),
        pytest.param(
            ["run", lambda pod: pod.exited(75, "lost a ps")], id="when the chief is restarted"
        ),
        pytest.param(
            ["run", lambda pod: pod.exited(75, "lost a ps"), "wait", "run"],
            id="in its second attempt",
        ),
        pytest.param(["run", lambda pod: pod.exited(64, "bad flag")], id="when it fails for good"),
    ],
)
def test_the_same_fate_of_the_pods_gives_the_same_conditions(
    steps: list[str | Callable[[PodBuilder], Any]],
    job: JobBuilder,
    operator: Operator,
    local: LocalWorld,
) -> None:
    cluster = operator.cluster
    key = cluster.submit(job.raw)
    operator.settle()
    local.settle()
    for step in steps:
        if step == "run":
            cluster.run_pods()
            local.kubelet.run_pods()
        elif step == "wait":
            operator.wait(30)
            local.wait(30)
        elif not isinstance(step, str):
            cluster.act(CHIEF, step)
            local.kubelet.act(CHIEF, step)
        operator.settle()
        local.settle()
    assert outcome(local.loop.status) == outcome(cluster.status(key))
    assert set(local.kubelet.raw) == set(cluster.pods())
    assert [(e.reason, e.note) for e in local.events] == [
        (e["reason"], e["note"]) for e in cluster.events
    ]


def test_a_folder_for_a_volume_that_the_job_does_not_have_is_refused(tmp_path: Path) -> None:
    job = a_job()
    job.raw["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    folders = {"dta": tmp_path}
    settings = Settings(python=PYTHON, checkpoints=None, logs=tmp_path, folders=folders)
    with pytest.raises(InputError, match="--volume: the job has no volume dta; it has data"):
        LocalRun(a_manifest(job), settings, tmp_path)
