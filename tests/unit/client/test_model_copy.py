"""The exported model of a job is copied by a pod that is deleted again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tftraining import model_copy
from tftraining.client import TFTrainingClient
from tftraining.cluster.cluster import Cluster
from tftraining.errors import (
    AlreadyExistsError,
    InputError,
    NotFoundError,
    TFTrainingError,
    UnreachableError,
)
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import BestCheckpoint, Metric, ModelStatus

from tests.unit.builders import IMAGE, JobBuilder, Raw, a_condition, a_job, a_pod
from tests.unit.client.connection import JOBS, PODS, Stored
from tests.unit.strictness import unknown_fields

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}
MODEL = ModelStatus(step=810, path="/checkpoints/export/810", formats=["saved_model"])
BEST = BestCheckpoint(
    step=700,
    metric=Metric(name="val_loss", value="0.1"),
    path="/checkpoints/ckpt-700",
    export_path="/checkpoints/export/best/700",
)
ENDED = (a_condition(ConditionType.SUCCEEDED), a_condition(ConditionType.FINISHED))


def a_trained_job(**checkpoint: object) -> JobBuilder:
    job = a_job().with_container(image=IMAGE).with_spec(checkpoint=checkpoint or CLAIM)
    return job.with_status(*ENDED, state="Succeeded", model=MODEL, best=BEST)


def a_client(stored: Stored, job: JobBuilder | None = None) -> TFTrainingClient:
    stored.add_job((job or a_trained_job()).raw)
    return TFTrainingClient(cluster=stored.cluster())


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """A cluster in which the job's volume has two models."""
    volume = tmp_path / "checkpoints/export"
    for at, weights in (("810", b"last"), ("best/700", b"best")):
        (volume / at / "variables").mkdir(parents=True)
        (volume / at / "variables/data").write_bytes(weights)
        (volume / at / "saved_model.pb").write_bytes(b"graph")
    return Stored(root=tmp_path)


def pods(stored: Stored) -> list[str]:
    return [path for path in stored.objects if path.startswith(PODS)]


def test_the_model_is_copied_and_the_pod_is_deleted(stored: Stored, tmp_path: Path) -> None:
    said: list[str] = []
    found = a_client(stored).get_model("mnist", tmp_path / "here", say=said.append)
    assert found == tmp_path / "here/810"
    assert (found / "variables/data").read_bytes() == b"last"
    assert (found / "saved_model.pb").read_bytes() == b"graph"
    assert list((tmp_path / "here").iterdir()) == [found]
    (pod,) = stored.made
    name = pod["metadata"]["name"]
    assert name.startswith("mnist-model-reader-")
    assert pods(stored) == []
    assert [text.split(",")[0] for text in said] == [f"starting pod {name}", f"deleted pod {name}"]


@pytest.mark.parametrize(
    "error",
    [
        TFTrainingError("pods is forbidden: you may not delete"),
        UnreachableError("cannot reach the cluster"),
    ],
)
def test_a_complete_model_is_kept_though_its_pod_cannot_be_deleted(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TFTrainingError
) -> None:
    said: list[str] = []
    client = a_client(stored)

    def refused(_cluster: Cluster, _pod: Raw) -> None:
        raise error

    monkeypatch.setattr(Cluster, "delete_pod", refused)
    found = client.get_model("mnist", tmp_path / "here", say=said.append)
    assert (found / "variables/data").read_bytes() == b"last"
    name = stored.made[0]["metadata"]["name"]
    assert said[1:] == [
        f"cannot delete pod {name}: {error}; it is deleted with the job, or by kubectl"
    ]


def test_no_pod_is_made_where_no_program_may_be_run_in_it(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_given: object) -> None:
        raise InputError("as such tftj cannot run a program in a pod")

    monkeypatch.setattr(stored, "execute", refused)
    with pytest.raises(InputError, match="as such tftj cannot run a program in a pod"):
        a_client(stored).get_model("mnist", tmp_path / "here")
    assert stored.made == []
    assert list((tmp_path / "here").iterdir()) == []


def test_the_best_model_is_copied_on_demand(stored: Stored, tmp_path: Path) -> None:
    found = a_client(stored).get_model("mnist", tmp_path / "here", best=True)
    assert (found.name, (found / "variables/data").read_bytes()) == ("700", b"best")


def test_a_model_of_many_chunks_arrives_whole(stored: Stored, tmp_path: Path) -> None:
    weights = os.urandom(11 * (1 << 20) + 17)
    (tmp_path / "checkpoints/export/810/variables/data").write_bytes(weights)
    found = a_client(stored).get_model("mnist", tmp_path / "here")
    assert (found / "variables/data").read_bytes() == weights


def test_the_pod_mounts_the_volume_read_only_and_belongs_to_the_job(
    stored: Stored, tmp_path: Path
) -> None:
    client = a_client(stored)
    stored.pod_status = {"phase": "Pending", "containerStatuses": [a_waiting("ErrImagePull")]}
    with pytest.raises(TFTrainingError, match="did not start: ErrImagePull: no such image"):
        client.get_model("mnist", tmp_path / "here")
    (pod,) = stored.made
    assert unknown_fields("Pod", {key: pod[key] for key in pod if key != "status"}) == []
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("TFTrainingJob", "uid-1")
    (container,) = pod["spec"]["containers"]
    mount = {"name": "checkpoint", "mountPath": "/checkpoints", "readOnly": True}
    assert mount in container["volumeMounts"]
    assert (container["image"], pod["spec"]["restartPolicy"]) == (IMAGE, "Never")
    assert pod["spec"]["activeDeadlineSeconds"] == 24 * 3600
    assert not pod["spec"]["automountServiceAccountToken"]
    assert pods(stored) == []


def a_waiting(reason: str) -> Raw:
    return {"state": {"waiting": {"reason": reason, "message": "no such image"}}}


def test_ctrl_c_before_the_answer_leaves_no_pod(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, create_pod = a_client(stored), Cluster.create_pod

    def interrupted(cluster: Cluster, manifest: Raw) -> None:
        create_pod(cluster, manifest)
        raise KeyboardInterrupt

    monkeypatch.setattr(Cluster, "create_pod", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.get_model("mnist", tmp_path / "here")
    assert len(stored.made) == 1
    assert pods(stored) == []


def test_a_folder_that_is_gone_is_told_and_nothing_is_left(stored: Stored, tmp_path: Path) -> None:
    client = a_client(stored)
    stored.root = tmp_path / "elsewhere"
    with pytest.raises(TFTrainingError, match=r"cannot read .*export/810: No such file"):
        client.get_model("mnist", tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []
    assert pods(stored) == []


def test_a_model_that_breaks_off_is_no_model(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = "import sys; sys.stdout.write('half'); sys.exit('disk error')"
    monkeypatch.setattr(model_copy, "_SENDER", half)
    with pytest.raises(TFTrainingError, match="disk error"):
        a_client(stored).get_model("mnist", tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_a_model_that_is_here_already_is_kept(stored: Stored, tmp_path: Path) -> None:
    (tmp_path / "here/810").mkdir(parents=True)
    with pytest.raises(AlreadyExistsError, match="here/810 exists: delete it, or"):
        a_client(stored).get_model("mnist", tmp_path / "here")
    assert stored.made == [], "no pod was started"


@pytest.mark.parametrize(
    ("job", "kind", "told"),
    [
        pytest.param(
            a_job().with_spec(checkpoint=CLAIM).with_status(state="Running"),
            NotFoundError,
            "mnist has no model yet: it is exported at the end",
            id="a job that trains",
        ),
        pytest.param(
            a_job().with_status(*ENDED, state="Succeeded"),
            NotFoundError,
            "mnist has no model: set spec.checkpoint",
            id="a job without checkpoints",
        ),
        pytest.param(
            a_trained_job(emptyDir={}),
            InputError,
            "mnist saves its model in its chief's emptyDir",
            id="a volume that ends with its pod",
        ),
        pytest.param(
            a_trained_job(uri="gs://bucket/mnist").with_status(
                *ENDED, model=ModelStatus(step=1, path="gs://bucket/mnist/export/1")
            ),
            InputError,
            "copy gs://bucket/mnist/export/1 with the tools of that storage",
            id="object storage",
        ),
    ],
)
def test_what_cannot_be_copied_is_told(
    stored: Stored, tmp_path: Path, job: JobBuilder, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        a_client(stored, job).get_model("mnist", tmp_path / "here")
    assert pods(stored) == []


def test_a_job_without_a_best_model_says_how_to_get_one(stored: Stored, tmp_path: Path) -> None:
    job = a_job().with_spec(checkpoint=CLAIM).with_status(*ENDED, model=MODEL)
    with pytest.raises(
        NotFoundError, match=r"no best model: the best one is kept with .*keep-best"
    ):
        a_client(stored, job).get_model("mnist", tmp_path / "here", best=True)


def test_the_image_is_that_of_the_chief(stored: Stored, tmp_path: Path) -> None:
    job = a_trained_job()
    chief = a_pod(job.build(), Role.CHIEF).raw
    chief["spec"]["containers"][0]["image"] = "example.com/other:2"
    stored.objects[f"{PODS}/mnist-chief-0"] = chief
    a_client(stored, job).get_model("mnist", tmp_path / "here")
    assert stored.made[0]["spec"]["containers"][0]["image"] == "example.com/other:2"
    assert f"{JOBS}/mnist" in stored.objects


def test_an_image_of_the_node_is_not_pulled(stored: Stored, tmp_path: Path) -> None:
    """The default for the tag latest is to pull it, which fails if no registry has it."""
    job = a_trained_job().with_container(image="trainer:latest", imagePullPolicy="Never")
    a_client(stored, job).get_model("mnist", tmp_path / "here")
    (container,) = stored.made[0]["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("trainer:latest", "Never")


def test_an_api_server_that_is_away_for_a_moment_is_asked_again(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, found, away = a_client(stored), Cluster.pod, [UnreachableError("away")] * 2

    def pod(cluster: Cluster, name: str) -> Raw:
        if away:
            raise away.pop()
        return found(cluster, name)

    monkeypatch.setattr(Cluster, "pod", pod)
    monkeypatch.setattr(model_copy, "_TICK_SECONDS", 0.01)
    assert client.get_model("mnist", tmp_path / "here").exists()
    away += [UnreachableError("away")] * 1000
    monkeypatch.setattr(model_copy, "_START_SECONDS", 0.1)
    with pytest.raises(UnreachableError, match="away"):
        client.get_model("mnist", tmp_path / "there")
    assert pods(stored) == []
