"""Which checkpoint is the best, and how it is kept."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tensorflow as tf
from tftrainer.config.arguments import Goal
from tftrainer.errors import BadConfigurationError, CheckpointUnavailableError
from tftrainer.runtime.progress import BestCheckpoint, SavedCheckpoint
from tftrainer.saving.best import Best

LEAST_LOSS = Goal("val_loss", larger_is_better=False)


def saved(folder: Path, step: int) -> SavedCheckpoint:
    path = tf.train.Checkpoint(step=tf.Variable(step)).write(f"{folder}/ckpt-{step}")
    return SavedCheckpoint(step, path, datetime.now(UTC))


def keep(best: Best, known: BestCheckpoint | None, step: int, loss: float) -> BestCheckpoint | None:
    found = best.kept(known, saved(Path(best.directory), step), {"val_loss": loss, "loss": 0.0})
    return None if found is known else found


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "best").iterdir())


def test_the_best_replaces_the_one_before_and_is_found_again(tmp_path: Path) -> None:
    best = Best(str(tmp_path), LEAST_LOSS)
    first = keep(best, best.read(), 10, 0.5)
    assert first == BestCheckpoint(10, "val_loss", 0.5, f"{tmp_path}/best/ckpt-10")
    assert keep(best, first, 20, 0.6) is None
    assert keep(best, first, 30, 0.5) is None
    better = keep(best, first, 40, 0.25)

    assert better is not None
    assert best.read() == better
    data = "ckpt-40.data-00000-of-00001"
    assert files(tmp_path) == ["best.json", "checkpoint", data, "ckpt-40.index"]
    assert tf.train.latest_checkpoint(f"{tmp_path}/best") == better.path
    step = tf.train.load_checkpoint(better.path).get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE")
    assert step == 40


def test_larger_may_be_better_and_nan_never_is(tmp_path: Path) -> None:
    best = Best(str(tmp_path), Goal("val_loss", larger_is_better=True))
    assert keep(best, None, 10, float("nan")) is None
    first = keep(best, None, 20, 0.5)
    assert first is not None
    assert keep(best, first, 30, 0.4) is None
    assert keep(best, first, 40, 0.6) is not None


def test_the_best_by_another_metric_does_not_count(tmp_path: Path) -> None:
    assert keep(Best(str(tmp_path), LEAST_LOSS), None, 10, 0.5) is not None
    assert Best(str(tmp_path), Goal("val_mae", larger_is_better=False)).read() is None


def test_a_garbled_file_is_ignored_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    best = Best(str(tmp_path), LEAST_LOSS)
    (tmp_path / "best").mkdir()
    for text in ("", json.dumps({"metric": "val_loss"})):
        (tmp_path / "best/best.json").write_text(text)
        assert best.read() is None
    assert caplog.text.count("best.json is garbled (") == 2


def test_a_metric_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(BadConfigurationError, match=r"val_loss: .* There are accuracy, loss\."):
        Best(str(tmp_path), LEAST_LOSS).kept(
            None, saved(tmp_path, 1), {"loss": 1.0, "accuracy": 0.5}
        )


def test_a_folder_that_cannot_be_written_is_an_error_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "best").touch()
    with pytest.raises(CheckpointUnavailableError, match="best cannot be written"):
        keep(Best(str(tmp_path), LEAST_LOSS), None, 10, 0.5)


def test_the_best_is_found_again_where_the_directory_is_elsewhere_now(tmp_path: Path) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    assert keep(Best(str(before), LEAST_LOSS), None, 10, 0.5) is not None
    before.rename(now)

    best = Best(str(now), LEAST_LOSS).read()
    assert best == BestCheckpoint(10, "val_loss", 0.5, f"{now}/best/ckpt-10")


def test_a_kill_while_the_best_of_the_same_step_is_kept_again_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart validates the step again, perhaps with a result that is a little better."""
    best = Best(str(tmp_path), LEAST_LOSS)
    first = keep(best, None, 10, 0.5)

    def killed(_: str, to: str, **__: object) -> None:
        Path(to).write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "copy", killed)
        with pytest.raises(KeyboardInterrupt):
            keep(best, first, 10, 0.4)
    known = best.read()
    assert known == first
    assert known is not None
    step = tf.train.load_checkpoint(known.path).get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE")
    assert step == 10

    again = keep(best, known, 10, 0.4)
    assert again is not None
    assert again == best.read() == BestCheckpoint(10, "val_loss", 0.4, f"{known.path}-again")
    assert tf.train.latest_checkpoint(f"{tmp_path}/best") == again.path
    third = keep(best, again, 10, 0.3)
    assert third is not None
    assert third.path == known.path
    assert files(tmp_path) == [
        *("best.json", "checkpoint", "ckpt-10.data-00000-of-00001", "ckpt-10.index")
    ]
