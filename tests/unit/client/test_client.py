"""The client: what it sends, what it returns, and what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import tftraining
from tftraining import AsyncTFTrainingClient, TFTrainingClient, following
from tftraining.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InputError,
    NotFoundError,
    TimedOutError,
)
from tftraining.job import JobFailedError, seen
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Evaluation, Metric, Progress, QueueStatus

from tests.unit.builders import MUCH_LATER, JobBuilder, a_condition, a_job, a_pod, stamp
from tests.unit.client.connection import JOBS, PODS, Stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TASK = "def model(): ...\n\n\ndef dataset(split, context): ...\n"
CODE = "/api/v1/namespaces/default/configmaps/mnist-code"
PROGRESS = Progress(
    step=50,
    total_steps=200,
    metrics=[Metric(name="loss", value="0.5"), Metric(name="accuracy", value="nan")],
    loss="0.5",
    updated_at=stamp(),
)


def a_running_job() -> JobBuilder:
    running = (a_condition(ConditionType.RUNNING), a_condition(ConditionType.PODS_READY))
    return a_job().with_status(*running, state="Running", progress=PROGRESS, observed_generation=1)


def ended(kind: ConditionType, message: str = "") -> JobBuilder:
    conditions = (a_condition(kind, message=message), a_condition(ConditionType.FINISHED))
    return a_job().with_status(
        *conditions, state=kind.value, observed_generation=1, completion_time=stamp()
    )


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def client(stored: Stored) -> TFTrainingClient:
    return TFTrainingClient(cluster=stored.cluster())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "INTERVAL", 0.01)


def test_a_file_is_trained(stored: Stored, client: TFTrainingClient, tmp_path: Path) -> None:
    file = tmp_path / "mnist.py"
    file.write_text(TASK)
    job = client.train(file, workers=2, checkpoint="data", arguments=["--epochs=5"])
    assert (job.name, job.namespace) == ("mnist", "default")
    assert job.spec.worker is not None
    assert job.spec.worker.replicas == 2
    assert job.spec.checkpoint is not None
    assert stored.objects[CODE]["data"] == {"mnist.py": TASK}
    owners = stored.objects[CODE]["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [job.uid]
    with pytest.raises(AlreadyExistsError, match="replace=True"):
        client.train(file)


def model():  # noqa: ANN201 - as people write it
    return "a model"


def dataset(split, context):  # noqa: ANN001, ANN201, ARG001 - as above
    return split


def test_functions_are_trained(stored: Stored, client: TFTrainingClient) -> None:
    job = client.train(functions=[model, dataset], strategy="Mirrored")
    code = stored.objects[f"/api/v1/namespaces/default/configmaps/{job.name}-code"]
    assert job.name.startswith("task-")
    assert 'return "a model"\n' in code["data"]["task.py"]
    assert job.spec.strategy == tftraining.Strategy.MIRRORED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param({}, "either a model_file or functions", id="nothing to train"),
        pytest.param({"model_file": "job.yaml"}, "submit\\(\\) takes a manifest", id="a manifest"),
        pytest.param({"model_file": "absent.py"}, "absent.py: no such file", id="no file"),
        pytest.param({"model_file": "visoin"}, "visoin: no such file or folder", id="no folder"),
        pytest.param(
            {"functions": model},
            r"functions: must be a list such as \[model, dataset\]",
            id="one function",
        ),
        pytest.param(
            {"functions": [model, dataset], "strategy": "Parameter"},
            "strategy: 'Parameter' must be one of ParameterServer",
            id="a strategy",
        ),
        pytest.param(
            {"functions": [model, dataset], "arguments": "--epochs=5"},
            r'arguments: must be a list of strings, such as \["--epochs=5"\]',
            id="arguments in one string",
        ),
        pytest.param(
            {"functions": [model, dataset], "arguments": ["--epochs", 5]},
            "arguments: must be a list of strings",
            id="an argument that is a number",
        ),
        pytest.param(
            {"functions": [model, dataset], "env": {"SEED": 1}},
            "env: SEED must be a string, not 1",
            id="a variable that is a number",
        ),
        pytest.param(
            {"functions": [model, dataset], "ps": 0},
            "spec.ps: strategy ParameterServer needs parameter servers",
            id="what the API server would refuse",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_sent(
    stored: Stored, client: TFTrainingClient, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        client.train(**arguments)
    assert stored.objects == {}


def test_a_manifest_is_submitted_and_listed(stored: Stored, client: TFTrainingClient) -> None:
    manifest = a_job().raw
    manifest["metadata"] = {"name": "mnist"}
    client.submit(manifest)
    assert f"{JOBS}/mnist" in stored.objects
    assert [str(job) for job in client.list()] == [str(client.get("mnist"))]
    with pytest.raises(NotFoundError, match="did you mean mnist"):
        client.get("mnits")


def test_what_was_waited_for_is_returned(stored: Stored, client: TFTrainingClient) -> None:
    stored.add_job(ended(ConditionType.SUCCEEDED, "trained").raw)
    job = client.wait("mnist")
    assert (job.finished, job.succeeded, job.failed) == (True, True, False)
    assert str(job) == "mnist: Succeeded: trained"


def test_a_job_of_which_kueue_admitted_a_part_can_be_scaled_to_that(
    stored: Stored, client: TFTrainingClient
) -> None:
    queue = QueueStatus(name="q", workload="mnist-1a2b3", admitted_time=stamp(), workers=2)
    stored.add_job(a_job().with_workers(4).with_status(queue=queue).raw)
    assert client.scale("mnist", 4) == "mnist: has 4 workers already"
    assert client.scale("mnist", 2) == "mnist: scaled from 4 to 2 workers"
    assert f"PATCH {JOBS}/mnist" in stored.asked


def test_a_job_is_not_found_also_by_who_may_not_list_jobs(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.refusals[f"GET {JOBS}"] = ForbiddenError("tftrainingjobs is forbidden: cannot list")
    with pytest.raises(NotFoundError, match=r"no job mnist in namespace default$"):
        client.get("mnist")


def test_a_job_that_the_operator_refuses_is_told_by_what_would_change_it(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.add_job(a_job().with_spec(strategy="Horovod").raw)
    for change in (
        client.suspend,
        client.resume,
        client.restart,
        lambda name: client.scale(name, 2),
    ):
        with pytest.raises(InputError, match=r"job mnist is not valid: spec\.strategy"):
            change("mnist")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_stands_for_no_other_jobs(
    stored: Stored, client: TFTrainingClient, name: str
) -> None:
    """The API server would take the path for that of all jobs, and delete them."""
    for call in (client.delete, client.suspend, client.restart, client.get, client.describe):
        with pytest.raises(InputError, match=f"'{re.escape(name)}' cannot be the name of a job"):
            call(name)
    assert stored.asked == []


def test_a_job_that_failed_raises_why(stored: Stored, client: TFTrainingClient) -> None:
    stored.add_job(ended(ConditionType.FAILED, "the chief exited with 64").raw)
    with pytest.raises(JobFailedError, match="the chief exited with 64") as failed:
        client.wait("mnist")
    assert failed.value.job.failed


def test_a_wait_times_out_and_a_goal_is_checked(stored: Stored, client: TFTrainingClient) -> None:
    stored.add_job(a_running_job().raw)
    assert client.wait("mnist", "running").job is not None
    with pytest.raises(TimedOutError, match="mnist is not finished after 0 s"):
        client.wait("mnist", timeout=0)
    with pytest.raises(InputError, match="cannot wait for 'done': choose one of finished"):
        client.wait("mnist", "done")  # type: ignore[arg-type]


def test_metrics_are_records(stored: Stored, client: TFTrainingClient) -> None:
    evaluation = Evaluation(step=40, metrics=[Metric(name="loss", value="0.25")])
    stored.add_job(a_running_job().with_status(progress=PROGRESS, evaluation=evaluation).raw)
    first, second, third = client.metrics("mnist")
    assert first == {"source": "training", "step": 50, "name": "loss", "value": 0.5}
    assert (second["name"], str(second["value"])) == ("accuracy", "nan")
    assert third == {"source": "evaluation", "step": 40, "name": "loss", "value": 0.25}


def test_without_pandas_a_frame_says_what_to_do(
    stored: Stored, client: TFTrainingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.add_job(a_running_job().raw)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pandas is not installed"):
        client.metrics_frame("mnist")


def test_logs_are_lines_with_their_pod(stored: Stored, client: TFTrainingClient) -> None:
    job = a_running_job()
    stored.add_job(job.raw)
    stored.objects[f"{PODS}/mnist-chief-0"] = a_pod(job.build(), Role.CHIEF).running().raw
    stored.logs["mnist-chief-0"] = ["2026-01-02T03:04:05Z step 1", "2026-01-02T03:04:06Z step 2"]
    assert [str(line) for line in client.logs("mnist")] == ["chief-0 step 1", "chief-0 step 2"]
    with pytest.raises(NotFoundError, match="no logs to show"):
        client.logs("mnist", role="ps")
    with pytest.raises(InputError, match="role: 'boss' must be one of ps, worker, chief"):
        client.logs("mnist", role="boss")  # type: ignore[arg-type]


def test_a_notebook_shows_one_output_that_is_updated(
    stored: Stored, client: TFTrainingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, found: Any) -> None:
            shown.append(found)
            stored.add_job(ended(ConditionType.SUCCEEDED).raw)

    def display(found: Any, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(found)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    module = types.ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    stored.add_job(a_running_job().raw)
    client.wait("mnist")
    assert len(shown) == 3
    assert '<progress max="200" value="50"' in shown[0]._repr_html_()
    assert repr(shown[0]) == "mnist: Running: step 50 of 200, loss 0.5"


def test_the_html_of_a_job_has_no_markup_of_its_own() -> None:
    message = "<script>alert(1)</script>"
    job = ended(ConditionType.FAILED, message)
    html = seen(job.raw, [], MUCH_LATER)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_roles_are_shown_until_the_job_has_ended() -> None:
    job = a_running_job()
    pods = [a_pod(job.build(), Role.CHIEF).running().raw]
    assert "not ready: worker-0" in seen(job.raw, pods, MUCH_LATER)._repr_html_()
    over = seen(ended(ConditionType.SUCCEEDED).raw, pods, MUCH_LATER)
    assert "not ready" not in over._repr_html_()


def test_the_same_can_be_awaited(stored: Stored) -> None:
    stored.add_job(a_running_job().raw)

    async def run() -> str:
        client = AsyncTFTrainingClient(cluster=stored.cluster())
        waiting = asyncio.create_task(client.wait("mnist"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        stored.add_job(ended(ConditionType.SUCCEEDED, "trained").raw)
        return str(await waiting)

    assert asyncio.run(run()) == "mnist: Succeeded: trained"


def test_a_wait_can_be_cancelled(stored: Stored) -> None:
    stored.add_job(a_running_job().raw)

    async def run() -> None:
        client = AsyncTFTrainingClient(cluster=stored.cluster())
        await asyncio.wait_for(client.wait("mnist"), timeout=0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(run())


@contextlib.asynccontextmanager
async def quiet_followers(stored: Stored, number: int) -> AsyncIterator[AsyncTFTrainingClient]:
    """Follow the logs of a running job that writes none so often, until the block ends."""
    client = AsyncTFTrainingClient(cluster=stored.cluster())

    async def follow() -> None:
        async for line in client.logs("mnist", follow=True):
            raise AssertionError(line)

    tasks = [asyncio.create_task(follow()) for _ in range(number)]
    await asyncio.sleep(0.1)
    yield client
    for task in tasks:
        task.cancel()
    assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {
        asyncio.CancelledError
    }


def test_logs_that_nobody_writes_leave_threads_to_others_and_can_be_cancelled(
    stored: Stored,
) -> None:
    stored.add_job(a_running_job().raw)

    async def run() -> str:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with quiet_followers(stored, 4) as client:
            return str(await asyncio.wait_for(client.get("mnist"), timeout=5))

    # Whoever cannot be cancelled ends with the job, for which asyncio.run waits.
    end = threading.Timer(10, stored.add_job, [ended(ConditionType.SUCCEEDED).raw])
    end.start()
    began = time.monotonic()
    try:
        assert asyncio.run(run()).startswith("mnist: Running")
    finally:
        end.cancel()
    assert time.monotonic() - began < 5


def test_the_same_lines_are_followed_in_a_loop(stored: Stored) -> None:
    job = ended(ConditionType.SUCCEEDED)
    stored.add_job(job.raw)
    stored.objects[f"{PODS}/mnist-chief-0"] = a_pod(job.build(), Role.CHIEF).exited(0).raw
    stored.logs["mnist-chief-0"] = ["2026-01-02T03:04:05Z step 1", "2026-01-02T03:04:06Z step 2"]

    async def run(*, follow: bool) -> list[str]:
        client = AsyncTFTrainingClient(cluster=stored.cluster())
        return [str(line) async for line in client.logs("mnist", follow=follow)]

    for follow in (True, False):
        assert asyncio.run(run(follow=follow)) == ["chief-0 step 1", "chief-0 step 2"]


def test_every_name_of_the_package_exists() -> None:
    assert all(getattr(tftraining, name) is not None for name in tftraining.__all__)
    with pytest.raises(AttributeError, match="has no attribute Absent"):
        tftraining.Absent  # noqa: B018


def test_the_async_client_has_the_methods_of_the_other() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(TFTrainingClient) - public(AsyncTFTrainingClient) == {
        "cluster",
        "metrics_frame",
        "send",
    }


def test_describe_reads_the_claims_of_pods_without_a_node(
    stored: Stored, client: TFTrainingClient
) -> None:
    job = a_job().with_spec(checkpoint={"persistentVolumeClaim": {"claimName": "data"}})
    stored.add_job(job.raw)
    pod = stored.objects[f"{PODS}/mnist-chief-0"] = a_pod(job.build(), Role.CHIEF).raw
    pod["metadata"]["namespace"] = "default"
    assert "storage class" not in client.describe("mnist")

    stored.objects["/api/v1/namespaces/default/persistentvolumeclaims/data"] = {
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending"},
    }
    assert "data is Pending, storage class fast" in client.describe("mnist").splitlines()[0]
    pod["spec"]["nodeName"] = "node-1"
    assert "storage class" not in client.describe("mnist")


def test_who_may_read_no_events_sees_the_rest_of_a_job(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.add_job(a_job().raw)
    stored.refusals["GET /api/v1/namespaces/default/events"] = ForbiddenError("no events for you")

    assert client.describe("mnist").startswith("mnist: ")


def test_a_cluster_without_the_operator_is_told(stored: Stored, client: TFTrainingClient) -> None:
    """Of what it does not serve, an API server says that there is no such page."""
    manifest = {**a_job().raw, "metadata": {"name": "mnist"}}
    stored.refusals[f"POST {JOBS}?dryRun"] = NotFoundError("404 page not found")
    with pytest.raises(NotFoundError, match="the cluster has no TFTrainingJobs: install the op"):
        client.submit(manifest)
    stored.objects["/apis/tftraining.dev/v1alpha1"] = {}
    stored.refusals[f"POST {JOBS}?dryRun"] = NotFoundError('namespaces "vision" not found')
    with pytest.raises(NotFoundError, match='namespaces "vision" not found'):
        client.submit(manifest)


def test_a_job_that_only_evaluates_is_not_restarted_scaled_or_suspended(
    stored: Stored, client: TFTrainingClient
) -> None:
    """Nothing of it trains: a restart would only take the log of its chief away."""
    job = a_job().with_evaluator().with_status(state="Evaluating", chief_completion_time=stamp())
    stored.add_job(job.raw)
    chief = f"{PODS}/mnist-chief-0"
    stored.objects[chief] = a_pod(job.build(), Role.CHIEF).exited(0).raw
    for change in (client.restart, client.suspend, lambda name: client.scale(name, 4)):
        with pytest.raises(InputError, match="mnist trains no longer: its chief has succeeded, "):
            change("mnist")
    assert chief in stored.objects
    assert all(each.startswith("GET") for each in stored.asked)


def test_describe_shows_no_events_of_a_job_that_is_named_like_a_pod(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.add_job(a_job().raw)
    for pod in ("mnist-worker-0", "mnist-worker-2-chief-0", "mnist-worker-2-worker-0"):
        stored.objects[f"/api/v1/namespaces/default/events/{pod}"] = {
            "metadata": {"name": pod, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": pod},
            "message": f"about {pod}",
        }
    said = client.describe("mnist")
    assert "about mnist-worker-0" in said
    assert "about mnist-worker-2-" not in said
