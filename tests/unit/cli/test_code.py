"""Jobs that `tftj submit` makes of Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tftraining import code, sources, submission
from tftraining.code import Wanted
from tftraining.errors import InputError
from tftraining_operator.api.types import Strategy

if TYPE_CHECKING:
    from pathlib import Path

TASK = "def model(): ...\n\ndef dataset(split, context): ...\n"


def a_folder(at: Path, **files: str) -> Path:
    for name, text in files.items():
        path = at / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return at


def test_a_file_becomes_a_config_map_and_a_job_that_mounts_it(tmp_path: Path) -> None:
    task = tmp_path / "My_Task.py"
    task.write_text(TASK)
    plan = sources.plan(str(task), None, Wanted(workers=3, arguments=["--epochs=5"]))
    (config_map,) = plan.others
    assert config_map["data"] == {"My_Task.py": TASK}
    assert plan.job["metadata"] == {"name": "my-task"}
    container = plan.job["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["--task=/task/My_Task.py", "--epochs=5"]
    assert plan.job["spec"]["worker"] == {"replicas": 3}
    assert plan.owned


def test_no_name_is_not_that_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a script makes it of a variable that is not set."""
    monkeypatch.chdir(a_folder(tmp_path, task_py=TASK))
    with pytest.raises(InputError, match="the name of the file or folder is empty"):
        sources.plan("", None, Wanted())
    assert sources.plan(".", None, Wanted()).owned


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Python takes it, and Windows writes it."""
    task = tmp_path / "task.py"
    task.write_text(TASK, encoding="utf-8-sig")
    assert code.read(task, None).files == {"task.py": TASK}


def test_a_folder_keeps_its_packages(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "vision", task_py=TASK, layers__block_py="", __pycache____x="")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("")
    found = code.read(folder, None)
    config_map, job = code.manifests(found, Wanted())
    assert job["metadata"]["name"] == "vision"
    (volume,) = job["spec"]["template"]["spec"]["volumes"]
    items = {item["path"]: item["key"] for item in volume["configMap"]["items"]}
    assert items == {"layers/block.py": "layers__block.py", "task.py": "task.py"}
    assert set(config_map["data"]) == set(items.values())


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("evaluator", [False, True])
def test_what_is_made_is_a_valid_job(tmp_path: Path, strategy: Strategy, evaluator: bool) -> None:  # noqa: FBT001 - a parameter of the test
    task = a_folder(tmp_path, task_py=TASK) / "task.py"
    claim = "mnist" if evaluator else None
    wanted = Wanted(strategy=strategy, evaluator=evaluator, claim=claim, variables={"A": "b"})
    plan = sources.plan(str(task), None, wanted)
    submission.check(plan.job, "task.py")
    documents = list(yaml.safe_load_all(sources.as_yaml(plan)))
    assert documents == [*plan.others, plan.job]


@pytest.mark.parametrize(
    ("files", "task", "told"),
    [
        pytest.param({"a_py": TASK, "b_py": ""}, None, "Name it with --task", id="which file?"),
        pytest.param({"a_py": TASK}, "b.py", "has no file b.py", id="no such file"),
        pytest.param({"task_py": "def model(:\n"}, None, "task.py, line 1: ", id="syntax"),
        pytest.param({"task_py": "x\0"}, None, r"task\.py(, line \d+)?: source code", id="null"),
        pytest.param({"task_py": "x = '" + "a" * 1_000_000 + "'"}, None, "1 MB", id="too large"),
        pytest.param({}, None, "contains no files", id="an empty folder"),
    ],
)
def test_code_that_cannot_run_is_refused_before_anything_is_sent(
    tmp_path: Path, files: dict[str, str], task: str | None, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        code.read(a_folder(tmp_path, **files), task)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "data.npz").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="put data on a volume"):
        code.read(tmp_path, None)


def test_code_in_another_encoding_is_said_to_be_so(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_bytes(b"# caf\xe9\n")
    with pytest.raises(
        InputError, match=r"task\.py: not text in UTF-8: save code as UTF-8, and put"
    ):
        code.read(task, None)


def test_two_files_that_would_have_one_key_are_refused() -> None:
    found = code.Code({"a/b.py": "", "a__b.py": ""}, "a__b.py", "x")
    with pytest.raises(InputError, match="rename one of them"):
        code.manifests(found, Wanted())


def test_options_of_code_are_refused_beside_a_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text("kind: TFTrainingJob")
    with pytest.raises(InputError, match="--workers: only for a job made of Python code"):
        sources.plan(str(manifest), None, Wanted(workers=4))


@pytest.mark.parametrize(
    ("file", "expected"),
    [("9lives.py", "job-9lives"), ("ä.py", "job-"), ("A" * 99 + ".py", "a" * 51)],
)
def test_a_jobs_name_is_one_that_the_api_server_takes(
    tmp_path: Path, file: str, expected: str
) -> None:
    path = tmp_path / file
    path.write_text(TASK)
    assert code.read(path, None).name == expected.strip("-")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param(
            Wanted(strategy=Strategy.MIRRORED, workers=2),
            "--workers: strategy Mirrored trains in the chief alone: omit it",
            id="workers of a job without any",
        ),
        pytest.param(
            Wanted(strategy=Strategy.MULTI_WORKER_MIRRORED, ps=2),
            "--ps: only strategy ParameterServer has parameter servers: omit it",
            id="parameter servers of a job without any",
        ),
        pytest.param(
            Wanted(evaluator=True),
            "--evaluator: it reads the chief's checkpoints: name a claim for them",
            id="an evaluator without checkpoints",
        ),
    ],
)
def test_roles_that_the_job_cannot_have_are_refused(wanted: Wanted, told: str) -> None:
    with pytest.raises(InputError, match=told):
        code.manifests(code.of_text(TASK, "task"), wanted)


def test_the_file_of_a_folder_is_refused_beside_a_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text("kind: TFTrainingJob")
    with pytest.raises(InputError, match="--task: only for a job made of Python code"):
        sources.plan(str(manifest), "task.py", Wanted())


def not_to_be_read(path: Path) -> str:
    raise AssertionError(path)


def test_a_folder_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have gigabytes of data."""
    task = a_folder(tmp_path, task_py=TASK) / "data.csv"
    with task.open("wb") as file:
        file.truncate(2 << 40)
    monkeypatch.setattr(code, "_text", not_to_be_read)
    with pytest.raises(InputError, match=r"2 files of 21990232556\d\d bytes do not fit"):
        code.read(tmp_path, None)


def test_folders_whose_names_differ_after_a_dot_are_different_jobs(tmp_path: Path) -> None:
    """One would be deleted for the other by --replace."""
    names = []
    for folder in ("rate-0.1", "rate-0.2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "task.py").write_text(TASK)
        names.append(code.read(tmp_path / folder, None).name)
    assert names == ["rate-0-1", "rate-0-2"]
