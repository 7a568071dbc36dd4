"""Which folder takes the place of each volume of a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tftraining.cli.local.commands import TRAINER_IMAGE
from tftraining.cli.local.volumes import Mount, Volume, mounts, populate, volumes
from tftraining.errors import InputError
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired

from tests.unit.builders import a_job
from tests.unit.cli.plans import a_manifest
from tests.unit.cli.test_manifest import CONFIG_MAP, SECRET

MANIFEST = a_manifest(a_job(), CONFIG_MAP, SECRET)


def found(source: dict[str, Any], **folders: Path) -> Volume:
    pod = {"spec": {"volumes": [{"name": "v", **source}]}}
    return volumes(pod, Path("/pod"), MANIFEST, checkpoints=None, folders=folders)["v"]


@pytest.mark.parametrize("role", [Role.CHIEF, Role.PS])
def test_the_checkpoint_volume_is_the_folder_of_the_run_and_tmp_stays_tmp(role: Role) -> None:
    job = a_job().with_evaluator().with_role("ps", mountCheckpoint=True).build()
    pod = desired.pod(job, role, 0, 0, TRAINER_IMAGE)
    known = volumes(pod, Path("/pod"), MANIFEST, checkpoints=Path("/keep"), folders={})
    container = pod["spec"]["containers"][0]
    assert mounts(container, known) == [Mount("/checkpoints", Path("/keep"))]
    assert len(container["volumeMounts"]) == 2


@pytest.mark.parametrize(
    ("source", "volume"),
    [
        pytest.param(
            {"emptyDir": {}}, Volume(Path("/pod/v")), id="emptyDir: an empty folder of the pod"
        ),
        pytest.param(
            {"hostPath": {"path": "/data"}},
            Volume(Path("/data"), is_created=False),
            id="hostPath: that path",
        ),
        pytest.param(
            {"secret": {"secretName": "keys", "items": [{"key": "token", "path": "a/b"}]}},
            Volume(Path("/pod/v"), {"a/b": b"hi"}),
            id="some keys of a Secret",
        ),
        pytest.param(
            {"configMap": {"name": "code"}},
            Volume(Path("/pod/v"), {"task.py": b"import os\n", "seed": b"\x01\x02"}),
            id="a whole ConfigMap",
        ),
        pytest.param(
            {"configMap": {"name": "absent", "optional": True}},
            Volume(Path("/pod/v")),
            id="an optional ConfigMap that is missing",
        ),
    ],
)
def test_a_volume_becomes_a_folder(source: dict[str, Any], volume: Volume) -> None:
    assert found(source) == volume


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "data"}},
            "volume v: not available on this computer (persistentVolumeClaim): name a folder with"
            " --volume v=FOLDER",
            id="a claim",
        ),
        pytest.param(
            {"configMap": {"name": "absent"}},
            "volume v: ConfigMap absent is not in the file",
            id="a ConfigMap that is not in the file",
        ),
        pytest.param(
            {"configMap": {"name": "code", "items": [{"key": "x", "path": "x"}]}},
            "volume v: has no key x; it has seed, task.py",
            id="a missing key",
        ),
    ],
)
def test_a_volume_that_only_a_cluster_has_is_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        found(source)
    assert message in str(refused.value)


def test_the_user_may_choose_a_folder_for_any_volume() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    assert found(claim, v=Path("/here")) == Volume(Path("/here"), is_created=False)


def test_a_sub_path_of_a_volume_may_be_mounted() -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/a/task.py", "subPath": "task.py"}]}
    known = {"v": Volume(Path("/pod/v"))}
    assert mounts(container, known) == [Mount("/a/task.py", Path("/pod/v/task.py"))]


def test_files_are_written_before_the_pod_starts(tmp_path: Path) -> None:
    populate(Volume(tmp_path / "v", {"a/b": b"hi"}))
    assert (tmp_path / "v/a/b").read_bytes() == b"hi"


def test_a_folder_of_the_user_is_not_created(tmp_path: Path) -> None:
    populate(Volume(tmp_path / "absent", is_created=False))
    assert not (tmp_path / "absent").exists()
