"""Which folder takes the place of each volume of a pod."""

from __future__ import annotations

import re
from dataclasses import replace
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
            {"configMap": {"name": "code", "defaultMode": "0o755"}},
            "volume v: defaultMode must be a number from 0 to 0777, not '0o755'",
            id="a mode that is no number",
        ),
        pytest.param(
            {"configMap": {"name": "code", "items": [{"key": "seed", "path": "s", "mode": 512}]}},
            "volume v: mode must be a number from 0 to 0777, not 512",
            id="a mode that is too large",
        ),
        pytest.param(
            {"configMap": {"name": "code", "items": [{"key": "x", "path": "x"}]}},
            "volume v: has no key x; it has seed, task.py",
            id="a missing key",
        ),
        *(
            pytest.param(
                {source: {key: found_as, "items": [{"key": item, "path": path}]}},
                f"volume v: {source}.items[0].path must be a path below the volume, such as {item},"
                f" without ..; not {path!r}",
                id=f"{source}: {path!r}",
            )
            for source, key, found_as, item in (
                ("configMap", "name", "code", "seed"),
                ("secret", "secretName", "keys", "token"),
            )
            for path in ("../x", "a/../../x", "..x", "/etc/x", "", None, 3)
        ),
        pytest.param(
            {
                "configMap": {
                    "name": "code",
                    "optional": True,
                    "items": [{"key": "x", "path": "/x"}],
                }
            },
            "volume v: configMap.items[0].path must be a path below the volume",
            id="a path of an optional key that is missing",
        ),
    ],
)
def test_a_volume_that_only_a_cluster_has_is_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        found(source)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["../v", "/v", "..", "", "V"])
def test_a_volume_without_a_name_for_a_folder_is_refused(name: str) -> None:
    pod = {"spec": {"volumes": [{"name": name, "emptyDir": {}}]}}
    with pytest.raises(InputError, match=rf"^volume {re.escape(name)}: .* lower-case letters"):
        volumes(pod, Path("/pod"), MANIFEST, checkpoints=None, folders={})


def test_the_user_may_choose_a_folder_for_any_volume() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    assert found(claim, v=Path("/here")) == Volume(Path("/here"), is_created=False)


def test_a_sub_path_of_a_volume_may_be_mounted() -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/a/task.py", "subPath": "task.py"}]}
    known = {"v": Volume(Path("/pod/v"))}
    assert mounts(container, known) == [Mount("/a/task.py", Path("/pod/v/task.py"))]


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        pytest.param({"subPath": "../x"}, "subPath ../x must be a path below it", id="above"),
        pytest.param({"subPath": "/x"}, "subPath /x must be a path below it", id="absolute"),
        pytest.param(
            {"subPathExpr": "$(POD_NAME)"},
            "volume v: subPathExpr is not available on this computer: use subPath",
            id="with variables",
        ),
    ],
)
def test_a_sub_path_that_cannot_be_mounted_is_refused(mount: dict[str, Any], message: str) -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/a", **mount}]}
    with pytest.raises(InputError) as refused:
        mounts(container, {"v": Volume(Path("/pod/v"))})
    assert message in str(refused.value)


def test_a_sub_path_is_created_where_the_volume_is(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "v", {"task.py": b"hi"})
    populate(
        volume,
        [
            Mount("/a", tmp_path / "v/runs/1"),
            Mount("/b", tmp_path / "v/task.py"),
            Mount("/c", tmp_path / "w/other"),
        ],
    )
    assert (tmp_path / "v/runs/1").is_dir()
    assert (tmp_path / "v/task.py").read_bytes() == b"hi"
    assert not (tmp_path / "w").exists()


def test_files_have_the_modes_of_the_volume(tmp_path: Path) -> None:
    items = [{"key": "task.py", "path": "run"}, {"key": "seed", "path": "seed", "mode": 0o400}]
    whole = found({"configMap": {"name": "code", "defaultMode": 0o755}})
    some = found({"configMap": {"name": "code", "defaultMode": 0o755, "items": items}})
    assert whole.modes == {"task.py": 0o755, "seed": 0o755}
    populate(replace(some, folder=tmp_path / "v"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "v").iterdir()}
    assert modes == {"run": 0o755, "seed": 0o400}


def test_a_folder_that_a_shell_would_split_is_mounted_by_a_link(tmp_path: Path) -> None:
    here = tmp_path / "my images"
    here.mkdir()
    volume = found({"hostPath": {"path": str(here)}})
    assert volume.link == Path("/pod/v")
    container = {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "b"}]}
    assert mounts(container, {"v": volume}) == [Mount("/a", Path("/pod/v/b"))]
    populate(replace(volume, link=tmp_path / "v"))
    assert (tmp_path / "v").resolve() == here


def test_files_are_written_before_the_pod_starts(tmp_path: Path) -> None:
    populate(Volume(tmp_path / "v", {"a/b": b"hi"}))
    assert (tmp_path / "v/a/b").read_bytes() == b"hi"


def test_a_folder_of_the_user_is_not_created(tmp_path: Path) -> None:
    populate(Volume(tmp_path / "absent", is_created=False))
    assert not (tmp_path / "absent").exists()
