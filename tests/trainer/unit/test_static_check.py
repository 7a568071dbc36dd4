from pathlib import Path

import pytest
from tftrainer.errors import BadConfigurationError
from tftrainer.user.static_check import check

GOOD = "def model(): ...\ndef dataset(split, context): ...\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(GOOD, id="two functions"),
        pytest.param("from theirs import model, dataset", id="imported names"),
        pytest.param("from theirs import *", id="a star import, which cannot be judged"),
        pytest.param("model = dataset = make()", id="assigned names"),
        pytest.param("if fast:\n  def model(): ...\nelse:\n  model = 1\n" + GOOD, id="branches"),
    ],
)
def test_a_task_that_may_work_passes(tmp_path: Path, source: str) -> None:
    (tmp_path / "mine.py").write_text(source)

    check(str(tmp_path / "mine.py"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("def dataset(split, context): ...", r"no model\(\)", id="no model"),
        pytest.param("def model(): ...", r"no dataset\(\)", id="no dataset"),
        pytest.param("def f():\n  model = 1\n" + GOOD[17:], r"no model\(\)", id="a local model"),
        pytest.param("def model(:", "syntax error: .*line 1", id="a syntax error"),
    ],
)
def test_what_is_plainly_wrong_is_refused(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(source)

    with pytest.raises(BadConfigurationError, match=said):
        check(str(tmp_path / "mine.py"))


@pytest.mark.parametrize("task", ["no.such.module", "nowhere.py", "./gone/task.py", "a..b"])
def test_a_task_that_is_not_there_is_refused(task: str) -> None:
    with pytest.raises(BadConfigurationError, match=r"--task="):
        check(task)


def test_a_package_that_fails_is_left_to_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing").mkdir()
    (tmp_path / "failing/__init__.py").write_text("{}['DATA']")
    (tmp_path / "failing/mine.py").write_text(GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))

    check("failing.mine")


@pytest.mark.parametrize("name", ["tensorflow.py", "random.py"])
def test_a_file_that_would_hide_a_package_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(GOOD)

    with pytest.raises(BadConfigurationError, match=r"shadows the package .*; rename it"):
        check(str(tmp_path / name))


def test_the_example_passes() -> None:
    check("tftrainer.examples.mnist")
