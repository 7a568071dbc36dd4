"""The commands of the processes that take the place of a job's pods."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tftraining import manifest
from tftraining.cli.local.commands import (
    TRAINER_IMAGE,
    ignored_features,
    inherited_variables,
    is_probed,
)
from tftraining.errors import InputError
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.raw_pod import runs_trainer

from tests.unit.builders import a_job
from tests.unit.cli.plans import CHECKPOINTS, PYTHON, a_manifest, plan
from tests.unit.cli.test_manifest import CONFIG_MAP

EXAMPLES = Path(__file__).parents[3] / "examples"
JOB = a_job().with_workers(2).with_evaluator()


def test_every_pod_runs_the_trainer_with_its_arguments() -> None:
    found = plan(a_manifest(JOB))
    assert list(found) == [
        "mnist-ps-0",
        "mnist-worker-0",
        "mnist-worker-1",
        "mnist-chief-0",
        "mnist-evaluator-0",
    ]
    assert {each.argv for each in found.values()} == {(PYTHON, "-m", "tftrainer", "--task=mnist")}


def test_tf_config_has_loopback_addresses() -> None:
    found = plan(a_manifest(JOB))
    cluster = json.loads(found["mnist-chief-0"].variables["TF_CONFIG"])["cluster"]
    assert cluster == {
        "chief": ["127.0.0.1:20003"],
        "worker": ["127.0.0.1:20001", "127.0.0.1:20002"],
        "ps": ["127.0.0.1:20000"],
    }
    own = json.loads(found["mnist-worker-1"].variables["TF_CONFIG"])
    assert own["cluster"] == cluster


def test_the_address_of_worker_10_is_not_taken_for_that_of_worker_1() -> None:
    found = plan(a_manifest(a_job().with_workers(11)))
    cluster = json.loads(found["mnist-chief-0"].variables["TF_CONFIG"])["cluster"]
    assert len(set(cluster["worker"])) == 11


def test_the_variables_are_those_of_the_operator_except_for_addresses_and_paths() -> None:
    found = plan(a_manifest(JOB))["mnist-chief-0"].variables
    pod = desired.pod(a_manifest(JOB).job, Role.CHIEF, 0, 0, TRAINER_IMAGE)
    expected = {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"]}
    places = {"TF_CONFIG", "TFTRAINING_CHECKPOINT_DIR"}
    assert {k: v for k, v in found.items() if k not in places} == {
        k: v for k, v in expected.items() if k not in places
    }
    assert found["TFTRAINING_CHECKPOINT_DIR"] == str(CHECKPOINTS)


def test_paths_below_a_mount_are_rewritten_and_no_others() -> None:
    job = a_job().with_container(
        args=["--task=/code/task.py", "--option=a=/codes/x", "/a/code", "see /code, or /code/b"],
        env=[{"name": "PYTHONPATH", "value": "/code:/other"}],
        workingDir="/code",
        volumeMounts=[{"name": "code", "mountPath": "/code/"}],
    )
    job.raw["spec"]["template"]["spec"]["volumes"] = [
        {"name": "code", "configMap": {"name": "code"}}
    ]
    found = plan(a_manifest(job, CONFIG_MAP))["mnist-chief-0"]
    folder = "/scratch/mnist-chief-0/code"
    assert found.argv[3:] == (
        f"--task={folder}/task.py",
        "--option=a=/codes/x",
        "/a/code",
        f"see {folder}, or {folder}/b",
    )
    assert found.variables["PYTHONPATH"] == f"{folder}:/other"
    assert found.folder == Path(folder)


def test_an_inserted_folder_is_not_rewritten_as_another_mount() -> None:
    job = a_job().with_container(
        args=["/data/x"],
        volumeMounts=[
            {"name": "data", "mountPath": "/data"},
            {"name": "more", "mountPath": "/mnt/data"},
        ],
    )
    job.raw["spec"]["template"]["spec"]["volumes"] = [
        {"name": "data", "hostPath": {"path": "/mnt/data"}},
        {"name": "more", "hostPath": {"path": "/more"}},
    ]
    assert plan(a_manifest(job))["mnist-chief-0"].argv[3] == "/mnt/data/x"


def test_paths_of_this_computer_are_not_rewritten_where_a_volume_is_mounted_above_them() -> None:
    job = a_job().with_container(
        args=["$(TFTRAINING_CHECKPOINT_DIR)/data", "/data$(SUFFIX)", "$(ROOT)/venv/x", "$(MINE)"],
        env=[
            {"name": "ROOT", "value": "/data"},
            {"name": "SUFFIX", "value": "/set-by-the-user"},
            {"name": "MINE", "value": "/elsewhere"},
        ],
        volumeMounts=[{"name": "a", "mountPath": "/data"}, {"name": "b", "mountPath": "/venv"}],
    )
    job.raw["spec"]["template"]["spec"]["volumes"] = [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "emptyDir": {}},
    ]
    here = {
        "TFTRAINING_CHECKPOINT_DIR": "/data/mine",
        "TFTRAINING_TERMINATION_LOG": "/data/log",
        "SUFFIX": "-2",
        "MINE": "/data",
    }
    found = plan(a_manifest(job), overrides=here)["mnist-chief-0"]
    volume = "/scratch/mnist-chief-0/a"
    assert found.argv == (
        *(PYTHON, "-m", "tftrainer"),
        *("/data/mine/data", "/data-2", f"{volume}/venv/x", "/data"),
    )
    assert found.variables["ROOT"] == volume
    assert {name: found.variables[name] for name in here} == here


def test_references_in_arguments_are_expanded_as_kubernetes_does() -> None:
    job = (
        a_job()
        .with_evaluator()
        .with_container(
            args=[
                "$(TFTRAINING_JOB)-$(RUN)",
                "$$(RUN)",
                "$(ABSENT)",
                "$(TFTRAINING_CHECKPOINT_DIR)/x",
            ],
            env=[{"name": "RUN", "value": "7"}],
        )
    )
    found = plan(a_manifest(job))["mnist-chief-0"]
    assert found.argv[3:] == ("mnist-7", "$(RUN)", "$(ABSENT)", f"{CHECKPOINTS}/x")


def test_a_command_replaces_the_trainer() -> None:
    found = plan(a_manifest(a_job().with_container(command=["python", "/x.py"], args=["--fast"])))
    assert found["mnist-chief-0"].argv == ("python", "/x.py", "--fast")


def test_variables_of_the_user_take_precedence() -> None:
    job = a_job().with_container(env=[{"name": "RUN", "value": "7"}], args=["$(RUN)"])
    found = plan(a_manifest(job), overrides={"RUN": "8"})["mnist-chief-0"]
    assert (found.variables["RUN"], found.argv[3]) == ("8", "8")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"args": ["--epochs", 3]},
            'containers[0].args[1]: must be a string: write "3" in quotes',
            id="a number for an argument",
        ),
        pytest.param({"command": "train"}, "command of container", id="a command that is no list"),
    ],
)
def test_a_command_of_another_type_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        plan(a_manifest(a_job().with_container(**fields)))
    assert message in str(refused.value)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_becomes_processes(path: Path) -> None:
    found = manifest.parse(path.read_text(), path.name, uid="uid-1")
    made = plan(found)
    assert len(made) == sum(found.job.desired(role) for role in Role)
    assert not [name for name, each in made.items() if ".svc:" in each.variables["TF_CONFIG"]]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, True, id="as the image does"),
        pytest.param({"args": ["--task=mnist"]}, True, id="with arguments alone"),
        pytest.param({"command": ["python", "-m", "tftrainer"]}, True, id="by its command"),
        pytest.param(
            {"command": ["sh", "-c"], "args": ["pip list; exec python -m tftrainer"]},
            True,
            id="by a shell",
        ),
        pytest.param(
            {"command": ["python3", "-m", "tftrainer.examples.placement"]}, True, id="an example"
        ),
        pytest.param({"command": ["train"]}, False, id="another program"),
        pytest.param(
            {"command": ["python", "/opt/tftrainer/run.py"], "args": ["--name=my-tftrainer"]},
            False,
            id="another program, with the word in a name",
        ),
    ],
)
def test_whether_a_pod_runs_the_trainer(fields: dict[str, object], expected: bool) -> None:  # noqa: FBT001
    job = a_job().with_container(**fields).build()
    assert runs_trainer(desired.pod(job, Role.CHIEF, 0, 0, TRAINER_IMAGE)) is expected


def test_the_port_makes_a_server_ready_unless_the_user_has_a_probe() -> None:
    own = a_job().with_container(readinessProbe={"exec": {"command": ["true"]}})
    assert is_probed(desired.pod(a_job().build(), Role.PS, 0, 0, TRAINER_IMAGE))
    assert not is_probed(desired.pod(own.build(), Role.PS, 0, 0, TRAINER_IMAGE))
    assert not is_probed(desired.pod(JOB.build(), Role.EVALUATOR, 0, 0, TRAINER_IMAGE))


def test_ignored_features_are_listed_once() -> None:
    job = a_job().with_container(image="me/train:1", resources={"limits": {"memory": "1Gi"}})
    job.raw["spec"]["template"]["spec"]["initContainers"] = [{"name": "fetch", "image": "curl"}]
    job.raw["spec"]["template"]["spec"]["containers"].append({"name": "proxy", "image": "envoy"})
    pods = [desired.pod(job.build(), role, 0, 0, TRAINER_IMAGE) for role in (Role.CHIEF, Role.PS)]
    assert ignored_features(pods) == [
        "image me/train:1 (the local Python runs instead)",
        "containers other than `tensorflow`: fetch, proxy",
        "resources",
    ]
    assert ignored_features([desired.pod(a_job().build(), Role.CHIEF, 0, 0, TRAINER_IMAGE)]) == []


def test_a_task_inherits_the_environment_except_for_variables_of_another_job() -> None:
    around = inherited_variables(
        {
            "HOME": "/home/me",
            "PATH": "/bin",
            "TF_CONFIG": "{}",
            "TFTRAINING_ATTEMPT": "3",
            "CUDA_VISIBLE_DEVICES": "0",
        },
        PYTHON,
    )
    assert around == {
        "HOME": "/home/me",
        "PATH": f"/venv/bin{os.pathsep}/bin",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
