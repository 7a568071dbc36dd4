"""A job is deleted only if the one that takes its place can be created."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tftraining import recreation, sources, submission
from tftraining.client import TFTrainingClient
from tftraining.cluster.cluster import Cluster
from tftraining.code import Wanted
from tftraining.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InputError,
    NotFoundError,
    TFTrainingError,
    TimedOutError,
    UnreachableError,
)
from tftraining_operator.api.keys import ConditionType

from tests.unit.builders import Raw, a_condition, a_job, stamp
from tests.unit.client.connection import CONFIG_MAPS, JOBS, Stored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MNIST = f"{JOBS}/mnist"
OLD = "uid-old"
CODE = f"{CONFIG_MAPS}/mnist-code"
REFUSED = InputError("admission webhook denied the request")
QUOTA = TFTrainingError('"mnist" is forbidden: exceeded quota: jobs, requested: 1, used: 1')
GONE = UnreachableError("cannot reach the cluster")
ENDED = (a_condition(ConditionType.FAILED), a_condition(ConditionType.FINISHED))
SUCCEEDED = (a_condition(ConditionType.SUCCEEDED), a_condition(ConditionType.FINISHED))
CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}
URI = {"uri": "gs://bucket/mnist"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def stored() -> Stored:
    """A cluster with a job that has ended, and its code."""
    stored = Stored()
    job = a_job().named("mnist", uid=OLD)
    stored.add_job(job.with_status(*ENDED, state="Failed", completion_time=stamp()).raw)
    owners = [{"uid": OLD}]
    made = {"ownerReferences": owners, "managedFields": [{"manager": "tftj"}]}
    stored.objects[CODE] = {"metadata": {"name": "mnist-code", **made}}
    return stored


@pytest.fixture
def client(stored: Stored) -> TFTrainingClient:
    return TFTrainingClient(cluster=stored.cluster())


def a_manifest(**metadata: str) -> Raw:
    return {**a_job().raw, "metadata": {"name": "mnist", **metadata}}


def succeed(
    stored: Stored, checkpoint: Raw | None, path: str | None = None, **container: Any
) -> None:
    """Let the job be one that has succeeded, with a last checkpoint at the path."""
    job = a_job().named("mnist", uid=OLD).with_container(**container)
    if checkpoint is not None:
        job.with_spec(checkpoint=checkpoint)
    saved = {"step": 100, "time": stamp(), "path": path} if path else None
    fields = {"state": "Succeeded", "completion_time": stamp(), "last_checkpoint": saved}
    stored.add_job(job.with_status(*SUCCEEDED, **fields).raw)


def owners(stored: Stored) -> list[str]:
    return [each["uid"] for each in stored.objects[CODE]["metadata"]["ownerReferences"]]


# ---- submit --replace ---------------------------------------------------------------------------


def test_a_job_is_replaced(stored: Stored, client: TFTrainingClient) -> None:
    client.submit(a_manifest(), replace=True)
    assert stored.objects[MNIST]["metadata"]["uid"] != OLD
    asked = [each for each in stored.asked if not each.startswith("GET")]
    changes = [f"DELETE {MNIST}", f"POST {JOBS}"]
    assert asked == [f"POST {JOBS}?dryRun", f"DELETE {MNIST}?dryRun", *changes]


@pytest.mark.parametrize("refused", [REFUSED, GONE], ids=["refused", "away"])
def test_a_job_stays_if_the_new_one_is_refused(
    stored: Stored, client: TFTrainingClient, refused: TFTrainingError
) -> None:
    stored.refusals[f"POST {JOBS}?dryRun"] = refused
    with pytest.raises(type(refused), match=str(refused)):
        client.submit(a_manifest(), replace=True)
    assert stored.objects[MNIST]["metadata"]["uid"] == OLD


def test_a_job_stays_if_what_comes_with_the_new_one_is_refused(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.refusals[f"PATCH {CODE}?dryRun"] = REFUSED
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mnist-code"}}
    with pytest.raises(InputError, match="webhook denied"):
        client.send(submission.Plan(a_manifest(), [other]), replace=True)
    assert stored.objects[MNIST]["metadata"]["uid"] == OLD


def test_a_quota_that_the_old_job_fills_is_no_refusal(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.refusals[f"POST {JOBS}?dryRun"] = QUOTA
    client.submit(a_manifest(), replace=True)
    assert stored.objects[MNIST]["metadata"]["uid"] != OLD
    with pytest.raises(TFTrainingError, match="exceeded quota"):
        client.submit(a_manifest(name="resnet"), replace=True)


def test_a_quota_may_count_the_old_job_for_a_moment() -> None:
    stored = Stored(refusals={f"POST {JOBS}": QUOTA})

    def sleep(_seconds: float) -> None:
        stored.refusals.clear()

    recreation.create_replacement(stored.cluster(), a_manifest(), sleep=sleep)
    assert MNIST in stored.objects


def test_a_quota_that_stays_exceeded_is_told(
    stored: Stored, client: TFTrainingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.refusals[f"POST {JOBS}"] = QUOTA
    monkeypatch.setattr(recreation, "_QUOTA_SECONDS", 0.0)
    with pytest.raises(TFTrainingError, match=r"exceeded quota: .*; the old job mnist is deleted"):
        client.submit(a_manifest(), replace=True)


def test_a_replacement_that_fails_says_that_the_old_job_is_deleted(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.refusals[f"POST {JOBS}"] = GONE
    with pytest.raises(UnreachableError, match="the old job mnist is deleted: submit it again"):
        client.submit(a_manifest(), replace=True)


@dataclass
class Silent(Stored):
    """It does not answer, and then forbids, once the old job is being deleted."""

    errors: list[TFTrainingError] = field(default_factory=lambda: [ForbiddenError("no"), GONE])

    def call(self, method: str, path: str, **options: Any) -> Raw:
        if method == "GET" and f"DELETE {MNIST}" in self.asked and self.errors:
            raise self.errors.pop()
        return super().call(method, path, **options)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda client: client.restart("mnist"), id="restart"),
        pytest.param(lambda client: client.submit(a_manifest(), replace=True), id="replace"),
        pytest.param(lambda client: client.delete("mnist", wait=True), id="delete"),
    ],
)
def test_an_api_server_that_is_away_while_the_old_job_ends_is_asked_again(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, change: Callable[[TFTrainingClient], object]
) -> None:
    """Who gives up then leaves no job at all."""
    monkeypatch.setattr(recreation, "_INTERVAL", 0.0)
    silent = Silent(stored.objects)
    change(TFTrainingClient(cluster=silent.cluster()))
    assert silent.errors == []


def test_one_that_stays_away_is_told(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recreation, "_INTERVAL", 0.0)
    monkeypatch.setattr(recreation, "_GONE_SECONDS", 0.0)
    client = TFTrainingClient(cluster=Silent(stored.objects, errors=[GONE] * 9).cluster())
    with pytest.raises(UnreachableError, match="mnist was not created again: tftj submit"):
        client.restart("mnist")


def test_a_job_that_does_not_end_in_time_leaves_the_new_one_to_be_submitted_again(
    stored: Stored, client: TFTrainingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods are on a node that is lost; nobody creates the new one later."""
    monkeypatch.setattr(recreation, "_GONE_SECONDS", 0.0)
    monkeypatch.setattr(Cluster, "delete_job", lambda *_given, **_options: None)
    told = "mnist is still being deleted after 0 s: .*; the new job is not created: submit it again"
    with pytest.raises(TimedOutError, match=told):
        client.submit(a_manifest(), replace=True)
    assert f"POST {JOBS}" not in stored.asked


class Collecting(Stored):
    """Its garbage collector is late: it comes when a job has been created."""

    def call(self, method: str, path: str, **options: Any) -> Raw:
        answer = super().call(method, path, **options)
        if self.asked[-1] == f"POST {JOBS}":
            present = {each["metadata"].get("uid") for each in self.objects.values()}
            for key, each in list(self.objects.items()):
                owners = each["metadata"].get("ownerReferences") or []
                if owners and present.isdisjoint(owner["uid"] for owner in owners):
                    del self.objects[key]
        return answer


@pytest.mark.parametrize("is_there", [True, False], ids=["replaced", "just deleted"])
def test_the_code_of_the_new_job_does_not_go_with_the_old_one(
    stored: Stored,
    tmp_path: Path,
    is_there: bool,  # noqa: FBT001
) -> None:
    collecting = Collecting(stored.objects)
    if not is_there:
        del collecting.objects[MNIST]
    task = tmp_path / "mnist.py"
    task.write_text("def model(): ...\n\n\ndef dataset(split, context): ...\n")
    TFTrainingClient(cluster=collecting.cluster()).train(task, replace=True)
    assert owners(collecting) == [collecting.objects[MNIST]["metadata"]["uid"]]
    assert collecting.objects[CODE]["data"] == {"mnist.py": task.read_text()}


def test_a_job_that_may_not_be_deleted_keeps_its_code(
    stored: Stored, client: TFTrainingClient, folder: Path
) -> None:
    refused = TFTrainingError('"mnist" is forbidden: User "x" cannot delete it')
    stored.refusals[f"DELETE {MNIST}?dryRun"] = stored.refusals[f"DELETE {MNIST}"] = refused
    with pytest.raises(TFTrainingError) as failed:
        client.restart("mnist")
    assert str(failed.value) == str(refused)
    assert owners(stored) == [OLD]
    assert list(folder.iterdir()) == []
    with pytest.raises(TFTrainingError) as failed:
        client.submit(a_manifest(), replace=True)
    assert str(failed.value) == str(refused)


def test_a_job_of_another_namespace_is_refused_before_anything_is_sent(
    stored: Stored, client: TFTrainingClient
) -> None:
    with pytest.raises(InputError, match=r"metadata\.namespace is vision, .* of namespace default"):
        client.submit(a_manifest(namespace="vision"), replace=True)
    assert stored.asked == []


def test_the_namespace_is_that_of_the_manifest() -> None:
    job = a_manifest(namespace="vision")
    assert submission.namespace_of(job, None, "x") == "vision"
    assert submission.namespace_of(job, "vision", "x") == "vision"
    assert submission.namespace_of(a_manifest(), "speech", "x") == "speech"
    assert submission.namespace_of(a_manifest(), None, "x") is None
    with pytest.raises(InputError, match=r"x: metadata\.namespace is vision, --namespace speech"):
        submission.namespace_of(job, "speech", "x")


def test_a_config_map_of_somebody_else_is_not_taken(
    stored: Stored, client: TFTrainingClient, tmp_path: Path
) -> None:
    """It would be written over, and deleted with the job."""
    stored.objects[CODE] = theirs = {"metadata": {"name": "mnist-code"}, "data": {"a": "b"}}
    task = tmp_path / "mnist.py"
    task.write_text("def model(): ...\n\n\ndef dataset(split, context): ...\n")
    for is_there in (True, False):
        with pytest.raises(AlreadyExistsError, match="ConfigMap mnist-code exists, and tftj did"):
            client.train(task, replace=True)
        assert (MNIST in stored.objects) is is_there
        assert stored.objects[CODE] == theirs
        stored.objects.pop(MNIST, None)
    del stored.objects[CODE]
    client.train(task)
    client.train(task, replace=True)


class Interrupted(Stored):
    """It does not answer who sets the owner of the code."""

    def call(self, method: str, path: str, **options: Any) -> Raw:
        if path == CODE and (options.get("body") or {}).get("metadata", {}).get("ownerReferences"):
            raise GONE
        return super().call(method, path, **options)


def test_a_job_that_was_created_is_not_to_be_submitted_again(
    stored: Stored, tmp_path: Path
) -> None:
    """Whoever does would delete it."""
    interrupted = Interrupted(stored.objects)
    task = tmp_path / "mnist.py"
    task.write_text("def model(): ...\n\n\ndef dataset(split, context): ...\n")
    said: list[str] = []
    plan = sources.plan(str(task), None, Wanted())
    client = TFTrainingClient(cluster=interrupted.cluster())
    made = client.send(plan, replace=True, say=said.append)
    assert made.uid != OLD
    kept = f"ConfigMap mnist-code will not be deleted with the job: {GONE}"
    assert said[1:] == [kept]

    failed = a_job().with_status(*ENDED, state="Failed", completion_time=stamp())
    stored.objects[MNIST]["status"] = failed.raw["status"]
    stored.objects[CODE]["metadata"]["ownerReferences"] = [{"uid": made.uid}]
    assert client.restart("mnist", say=said.append).startswith("mnist: created again")
    assert said[-1] == kept


# ---- restart ------------------------------------------------------------------------------------


def test_an_ended_job_is_created_again(
    stored: Stored, client: TFTrainingClient, folder: Path
) -> None:
    said: list[str] = []
    assert client.restart("mnist", say=said.append).startswith("mnist: created again")
    assert owners(stored) == [stored.objects[MNIST]["metadata"]["uid"]]
    assert list(folder.iterdir()) == []
    (text,) = said
    assert text.startswith(f"deleting the job mnist; its manifest is in {folder}/mnist-")


def test_an_ended_job_stays_if_it_would_be_refused(
    stored: Stored, client: TFTrainingClient, folder: Path
) -> None:
    stored.refusals[f"POST {JOBS}?dryRun"] = REFUSED
    with pytest.raises(InputError, match="webhook denied"):
        client.restart("mnist")
    assert stored.objects[MNIST]["metadata"]["uid"] == OLD
    assert owners(stored) == [OLD]
    assert list(folder.iterdir()) == []


def test_a_restarted_job_still_belongs_to_its_owner(
    stored: Stored, client: TFTrainingClient
) -> None:
    """Such as a workflow, with which it is to be deleted."""
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "x", "uid": "u"}
    succeed(stored, None, None)
    stored.objects[MNIST]["metadata"]["ownerReferences"] = [workflow]
    client.restart("mnist")
    assert stored.objects[MNIST]["metadata"]["ownerReferences"] == [workflow]


def test_a_restart_that_fails_keeps_the_manifest(
    stored: Stored, client: TFTrainingClient, folder: Path
) -> None:
    spec = stored.objects[MNIST]["spec"]
    stored.refusals[f"POST {JOBS}"] = GONE
    with pytest.raises(UnreachableError, match="cannot reach the cluster") as failed:
        client.restart("mnist")
    (file,) = folder.iterdir()
    assert f"mnist was not created again: tftj submit {file} does it" in str(failed.value)
    kept = json.loads(file.read_text())
    assert (kept["metadata"]["namespace"], kept["spec"]) == ("default", spec)
    stored.refusals.clear()
    client.submit(file)
    assert MNIST in stored.objects


def test_a_manifest_that_cannot_be_kept_deletes_nothing(
    stored: Stored, client: TFTrainingClient, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "absent"))
    with pytest.raises(InputError, match="cannot keep the manifest of mnist: No such file"):
        client.restart("mnist")
    assert stored.objects[MNIST]["metadata"]["uid"] == OLD


def test_a_job_that_is_deleted_in_the_meantime_is_not_found(
    stored: Stored, client: TFTrainingClient
) -> None:
    stored.refusals[f"DELETE {MNIST}"] = NotFoundError("no job")
    with pytest.raises(NotFoundError, match=r"no job mnist in namespace default; .* not created"):
        client.restart("mnist")


def test_a_job_that_somebody_else_creates_is_left_to_them(
    stored: Stored, client: TFTrainingClient, folder: Path
) -> None:
    stored.refusals[f"POST {JOBS}"] = AlreadyExistsError("mnist exists")
    with pytest.raises(NotFoundError, match="somebody else created mnist in the meantime"):
        client.restart("mnist")
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("checkpoint", "path", "directory"),
    [
        pytest.param(CLAIM, "/checkpoints/ckpt-100", "/checkpoints", id="a volume"),
        pytest.param(
            CLAIM, "/checkpoints/mnist/ckpt-100", "/checkpoints/mnist", id="a shared volume"
        ),
        pytest.param(URI, "gs://bucket/mnist/ckpt-100", "gs://bucket/mnist", id="an object store"),
        pytest.param(CLAIM, None, "/checkpoints", id="a checkpoint that was not reported"),
        pytest.param(
            {**CLAIM, "resumeFrom": "/old/run"},
            "/checkpoints/ckpt-100",
            "/checkpoints",
            id="resumeFrom names another training",
        ),
    ],
)
def test_a_completed_training_is_not_restarted(
    stored: Stored, client: TFTrainingClient, checkpoint: Raw, path: str | None, directory: str
) -> None:
    """Its successor has another uid, so the trainer would refuse it the directory."""
    succeed(stored, checkpoint, path)
    with pytest.raises(InputError) as refused:
        client.restart("mnist")
    text = str(refused.value)
    assert text.startswith(f"mnist has succeeded: {directory} holds its completed training")
    assert f"set spec.checkpoint.resumeFrom to {directory} and raise --epochs" in text
    assert "use another directory" in text
    assert "tftj submit FILE --replace" in text
    assert stored.objects[MNIST]["metadata"]["uid"] == OLD
    assert all(each.startswith("GET") for each in stored.asked)
    with pytest.raises(
        InputError, match=r"has ended \(Succeeded\): .* holds its completed training"
    ):
        client.resume("mnist")


def test_a_script_of_ones_own_is_run_again_by_its_own_rules(
    stored: Stored, client: TFTrainingClient
) -> None:
    succeed(stored, CLAIM, "/checkpoints/ckpt-100", command=["python3", "/tftrainer/loop.py"])
    assert client.restart("mnist").startswith("mnist: created again")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"command": ["python3", "-m", "tftrainer"]}, id="by its command"),
        pytest.param(
            {"command": ["sh", "-c"], "args": ["exec python3 -m tftrainer --epochs=3"]},
            id="by a shell",
        ),
        pytest.param({"args": ["--epochs=3"]}, id="with arguments alone"),
    ],
)
def test_a_completed_training_is_not_restarted_whatever_starts_the_trainer(
    stored: Stored, client: TFTrainingClient, fields: Raw
) -> None:
    succeed(stored, CLAIM, "/checkpoints/ckpt-100", **fields)
    with pytest.raises(InputError, match="holds its completed training"):
        client.restart("mnist")


@pytest.mark.parametrize(
    ("checkpoint", "path", "beginning"),
    [
        pytest.param(None, None, "from step 0", id="no checkpoints"),
        pytest.param(
            {"emptyDir": {}}, "/checkpoints/ckpt-100", "from step 0", id="an emptyDir goes with it"
        ),
        *(
            pytest.param(
                {**CLAIM, "resumeFrom": origin},
                "/checkpoints/ckpt-100",
                "from its checkpoint of step 100",
                id=f"resumeFrom names {what}",
            )
            for origin, what in (
                ("/checkpoints/", "the directory"),
                ("/checkpoints/ckpt-100", "the checkpoint"),
            )
        ),
    ],
)
def test_a_job_that_succeeded_is_created_again_if_the_trainer_takes_it(
    stored: Stored,
    client: TFTrainingClient,
    checkpoint: Raw | None,
    path: str | None,
    beginning: str,
) -> None:
    succeed(stored, checkpoint, path)
    assert client.restart("mnist").startswith(f"mnist: created again, {beginning}")
    assert stored.objects[MNIST]["metadata"]["uid"] != OLD


# ---- a namespace of its own ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "vision"])
def test_the_namespace_of_a_job_may_be_in_its_file(client: TFTrainingClient, name: str) -> None:
    """Until that is created, the API server takes no job there, nor says whether it would."""
    stored: Stored = client.cluster.calls  # type: ignore[assignment]
    stored.objects = {"/apis/tftraining.dev/v1alpha1": {}}
    stored.refusals[f"POST {JOBS}?dryRun"] = NotFoundError('namespaces "default" not found')
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    plan = submission.Plan(a_manifest(), [namespace])
    if name == "vision":
        with pytest.raises(NotFoundError, match='namespaces "default" not found'):
            client.send(plan)
        assert MNIST not in stored.objects
        return
    client.send(plan)
    assert list(stored.objects)[1:] == ["/api/v1/namespaces/default", MNIST]
