"""What is left in the checkpoint directory: markers, and checkpoints that vanish."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tftrainer.config import arguments, environment
from tftrainer.config.job import Job
from tftrainer.data.position import Position
from tftrainer.errors import (
    BadConfigurationError,
    CheckpointUnavailableError,
    TerminatedError,
)
from tftrainer.runtime import process
from tftrainer.runtime.progress import SavedCheckpoint

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer.saving import checkpoints, epoch_end, files, marker, ownership  # noqa: E402
from tftrainer.saving.fence import Fence, claim  # noqa: E402
from tftrainer.saving.resume import resume  # noqa: E402

POSITION = Position(seed=1, batch_size=8, epoch_batches=10)


def test_a_marker_counts_only_for_its_own_job(tmp_path: Path) -> None:
    last = SavedCheckpoint(7, f"{tmp_path}/ckpt-7", datetime.now(UTC))
    ended_with = {"loss": 0.1 + 0.2}
    marker.write(str(tmp_path), job="mine", job_uid="uid-1", last=last, metrics=ended_with)

    written = marker.Marker("mine", "uid-1", 7, last.path, metrics=ended_with)
    assert marker.read(str(tmp_path)) == written
    assert marker.is_complete(str(tmp_path), "uid-1")
    assert not marker.is_complete(str(tmp_path), "uid-2")
    assert marker.read(str(tmp_path / "elsewhere")) is None

    (tmp_path / "complete.json").write_text("half a mark")
    assert marker.read(str(tmp_path)) is None
    assert not marker.is_complete(str(tmp_path), "uid-1")


def test_a_marker_before_the_callbacks_ends_no_evaluator_and_is_no_result(tmp_path: Path) -> None:
    last = SavedCheckpoint(7, f"{tmp_path}/ckpt-7", datetime.now(UTC))
    marker.write(str(tmp_path), job="mine", job_uid="uid-1", last=last, metrics={}, complete=False)

    assert not marker.is_complete(str(tmp_path), "uid-1")
    holder = ownership.holder_of(str(tmp_path), None)
    assert holder is not None
    assert (holder.uid, holder.completed) == ("uid-1", None)


def test_a_model_that_cannot_be_saved_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    class Numbered(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = {0: tf.keras.layers.Dense(1)}

    step = tf.Variable(7, dtype=tf.int64)
    with pytest.raises(BadConfigurationError, match=r"cannot be saved: .*non-string key"):
        checkpoints.Checkpoints(str(tmp_path), keep=3, model=Numbered(), step=step)


def test_a_checkpoint_that_is_away_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    step = tf.Variable(7, dtype=tf.int64)
    saved = checkpoints.Checkpoints(str(tmp_path), keep=3, model=model, step=step)
    saved.save(7, POSITION)

    def away(*_: object) -> None:
        raise tf.errors.UnavailableError(None, None, "503")

    def says_nothing(_: str) -> None:
        raise tf.errors.OpError(None, None, "Error executing an HTTP request", 2)

    monkeypatch.setattr(tf.train, "load_checkpoint", says_nothing)
    with pytest.raises(CheckpointUnavailableError, match="can be read"):
        saved.restore()
    monkeypatch.setattr(tf.io.gfile.GFile, "read", away)
    with pytest.raises(CheckpointUnavailableError, match="cannot be read: 503"):
        saved.restore()


def test_a_checkpoint_that_goes_away_while_the_servers_are_asked_is_not_damaged(
    tmp_path: Path,
) -> None:
    class Away:
        own = "/cpu:0"

        def to_write(self, directory: str) -> None:
            pass

        def to_read(self, path: str) -> None:
            raise tf.errors.UnavailableError(None, None, f"503 for {path}")

    step = tf.Variable(7, dtype=tf.int64)
    checkpoints.Checkpoints(str(tmp_path), keep=3, step=step).save(7, POSITION)
    asks = checkpoints.Checkpoints(str(tmp_path), keep=3, devices=Away(), step=step)
    with pytest.raises(CheckpointUnavailableError, match="cannot be read: 503"):
        asks.restore()


def test_a_marker_that_cannot_be_written_is_an_error_of_the_directory(tmp_path: Path) -> None:
    last = SavedCheckpoint(7, f"{tmp_path}/ckpt-7", datetime.now(UTC))
    with pytest.raises(CheckpointUnavailableError, match=r"the marker complete\.json in"):
        marker.write(str(tmp_path / "away"), job="mine", job_uid="uid-1", last=last, metrics={})


def test_the_end_of_an_epoch_is_unfinished_for_its_own_step_until_it_is_finished(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = str(tmp_path)
    assert epoch_end.unfinished(folder, 7) is None
    epoch_end.begin(folder, 7, {"loss": 0.1 + 0.2})
    assert epoch_end.unfinished(folder, 7) == {"loss": 0.1 + 0.2}
    assert epoch_end.unfinished(folder, 6) is None, "an older checkpoint had to be used"
    for _ in range(2):
        epoch_end.finish(folder)
        assert epoch_end.unfinished(folder, 7) is None

    assert not caplog.records
    for garbled in ("half a", '{"step": 7, "metrics": 1}', '{"step": 7}'):
        (tmp_path / "epoch.json").write_text(garbled)
        assert epoch_end.unfinished(folder, 7) is None
    assert len(caplog.records) == 3


def job(folder: Path | None, **variables: str) -> Job:
    told = {f"TFTRAINING_{name.upper()}": value for name, value in variables.items()}
    if folder is not None:
        told["TFTRAINING_CHECKPOINT_DIR"] = str(folder)
    return Job(arguments.parse(["--task=mine"]), environment.read(told))


def claimed(of: Job, *, context: int | None = None) -> Fence:
    """The fence of a job whose directory is the one that it was told."""
    _, fence = claim(of, context=context)
    assert fence is not None
    assert fence.directory == of.checkpoint_dir
    return fence


def resumed_step(of: Job) -> int:
    """Where a model of one variable goes on from."""
    step = tf.Variable(0, dtype=tf.int64)
    resume(of, tf.Module(), step)
    return int(step.numpy())


def save(folder: Path, *steps: int) -> None:
    step = tf.Variable(0, dtype=tf.int64)
    kept = checkpoints.Checkpoints(str(folder), keep=3, model=tf.Module(), step=step)
    for each in steps:
        step.assign(each)
        kept.save(each, POSITION)


def test_a_promised_checkpoint_that_is_not_there_ends_it(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointUnavailableError, match=f"step 7, but there is none in {tmp_path}"
    ):
        resumed_step(job(tmp_path, checkpoint_step="7"))
    with pytest.raises(CheckpointUnavailableError, match="step 7, but it has no checkpoint dir"):
        resumed_step(job(None, checkpoint_step="7"))

    assert resumed_step(job(tmp_path)) == 0


def test_an_earlier_training_where_tensorflow_cannot_read_is_refused_with_the_field(
    tmp_path: Path,
) -> None:
    of = job(tmp_path, resume_from="s3://bucket/run")
    with pytest.raises(BadConfigurationError, match=r"read or write s3://.*resumeFrom"):
        resume(of, tf.Module(), tf.Variable(0, dtype=tf.int64))


def test_an_earlier_training_of_another_model_is_refused_with_its_own_remedy(
    tmp_path: Path,
) -> None:
    save(tmp_path / "earlier", 3)
    of = job(tmp_path / "own", resume_from=str(tmp_path / "earlier"))
    other = tf.Module()
    other.added = tf.Variable(1.0)
    with pytest.raises(BadConfigurationError, match=r"on purpose, train without --resume-from"):
        resume(of, other, tf.Variable(0, dtype=tf.int64))


def test_an_older_checkpoint_than_promised_is_used_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 5, 7)
    assert resumed_step(job(tmp_path, checkpoint_step="7")) == 7
    assert "made again" not in caplog.text

    next(tmp_path.glob("ckpt-7.data-*")).write_bytes(b"")
    assert resumed_step(job(tmp_path, checkpoint_step="7")) == 5
    assert "has saved step 7, but the newest readable checkpoint" in caplog.text


def test_an_older_attempt_is_fenced_off(tmp_path: Path) -> None:
    first = claimed(job(tmp_path, job="mine", job_uid="uid-1", attempt="1"), context=42)
    first.check()
    second = claimed(job(tmp_path, job="mine", job_uid="uid-1", attempt="2"))
    assert second.context_before == 42

    with pytest.raises(TerminatedError, match="attempt 2 of mine has taken over"):
        first.check()
    with pytest.raises(TerminatedError, match="exits without saving"):
        claim(job(tmp_path, job="mine", job_uid="uid-1", attempt="1"))
    second.check()


def test_a_job_of_another_uid_is_no_newer_attempt(tmp_path: Path) -> None:
    before = claimed(job(tmp_path, job="mine", job_uid="uid-1", attempt="5"), context=42)
    other = claimed(job(tmp_path, job="mine", job_uid="uid-2", attempt="0"))

    other.check()
    assert other.context_before is None
    assert other.predecessor == "job mine (uid uid-1)"
    with pytest.raises(CheckpointUnavailableError, match=r"job mine \(uid uid-2\) has taken over"):
        before.check()


def test_only_the_newest_checkpoint_of_its_own_directory_can_be_continued_from(
    tmp_path: Path,
) -> None:
    """A start restores the newest that is there, whichever resumeFrom names."""
    save(tmp_path, 5, 7)
    save(tmp_path / "best", 5)
    last = SavedCheckpoint(7, f"{tmp_path}/ckpt-7", datetime.now(UTC))

    def again(uid: str, origin: str) -> Job:
        return job(tmp_path, job="mine", job_uid=uid, resume_from=f"{tmp_path}{origin}")

    def require_refused() -> None:
        for origin in ("/ckpt-5", "/best", "/best/"):
            with pytest.raises(BadConfigurationError, match=r"is \S+, but the newest .*/ckpt-7, "):
                claim(again("uid-2", origin))

    require_refused()
    claim(job(tmp_path, job="mine", job_uid="uid-1"))
    marker.write(str(tmp_path), job="mine", job_uid="uid-1", last=last, metrics={})
    require_refused()
    for uid, origin in (("uid-2", "/ckpt-7"), ("uid-3", "/"), ("uid-3", "/ckpt-5")):
        claimed(again(uid, origin)).check()


def test_a_restart_before_the_first_save_still_knows_whose_checkpoints_are_there(
    tmp_path: Path,
) -> None:
    """Else the training of an earlier job would pass for this one's."""
    save(tmp_path, 7)
    claim(job(tmp_path, job="mine", job_uid="uid-1"))
    claim(job(tmp_path, job="mine", job_uid="uid-2"))

    again = job(tmp_path, job="mine", job_uid="uid-2", attempt="1")
    step = tf.Variable(0, dtype=tf.int64)
    resumed = resume(again, tf.Module(), step, fence=claimed(again))
    assert resumed.origin == "an earlier job (uid uid-1)"

    saved = job(tmp_path, job="mine", job_uid="uid-2", attempt="2", checkpoint_step="7")
    assert resume(saved, tf.Module(), step, fence=claimed(saved)).origin is None


@pytest.mark.parametrize("name", ["best", "export", "logs"])
def test_a_jobs_own_directory_is_no_folder_of_another_training(tmp_path: Path, name: str) -> None:
    claim(job(tmp_path, job="mine", job_uid="uid-1"))
    other = job(tmp_path, job=name, job_uid="uid-2")
    assert ownership.with_own_directory(other).checkpoint_dir == f"{tmp_path}/job-{name}"

    # One that an earlier trainer gave it, it keeps.
    claim(job(tmp_path / name, job=name, job_uid="uid-2"))
    assert ownership.with_own_directory(other).checkpoint_dir == f"{tmp_path}/{name}"


def test_where_nothing_is_saved_nothing_is_claimed() -> None:
    nowhere = job(None)
    assert claim(nowhere) == (nowhere, None)


def test_a_claim_that_cannot_be_read_is_no_missing_claim(tmp_path: Path) -> None:
    mine = job(tmp_path, job="mine", job_uid="uid-1")
    fence = claimed(mine)
    (tmp_path / "attempt.json").unlink()
    (tmp_path / "attempt.json").mkdir()

    with pytest.raises(CheckpointUnavailableError, match="cannot be read"):
        fence.check()
    with pytest.raises(CheckpointUnavailableError, match="cannot be read"):
        claim(mine)


def test_a_garbled_claim_stops_a_running_chief_and_is_written_again_by_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = job(tmp_path, job="mine", job_uid="uid-1")
    fence = claimed(mine)
    (tmp_path / "attempt.json").write_text("")
    with pytest.raises(CheckpointUnavailableError, match=r"attempt\.json is garbled"):
        fence.check()

    claimed(mine).check()
    assert "is garbled" in caplog.text


def test_a_garbled_claim_beside_checkpoints_is_another_jobs_unless_this_one_has_saved(
    tmp_path: Path,
) -> None:
    save(tmp_path, 7)
    (tmp_path / "attempt.json").write_text("{}")
    with pytest.raises(CheckpointUnavailableError, match="If no other job does, delete it"):
        claim(job(tmp_path, job="mine", job_uid="uid-1"))

    claimed(job(tmp_path, job="mine", job_uid="uid-1", checkpoint_step="7")).check()
    (tmp_path / "attempt.json").write_text("{}")
    claimed(job(tmp_path)).check()


def test_the_evaluator_waits_for_its_own_job_to_use_the_directory(tmp_path: Path) -> None:
    mine = job(tmp_path, job="mine", job_uid="uid-2")
    assert not ownership.is_in_use(mine)
    claim(job(tmp_path, job="mine", job_uid="uid-1"))
    assert not ownership.is_in_use(mine)
    claim(mine)
    assert ownership.is_in_use(mine)

    other = ownership.with_own_directory(job(tmp_path, job="other", job_uid="uid-3"))
    assert other.checkpoint_dir == f"{tmp_path}/other"
    assert not ownership.is_in_use(other)

    (tmp_path / "unclaimed").mkdir()
    save(tmp_path / "unclaimed", 7)
    assert ownership.is_in_use(job(tmp_path / "unclaimed", job="mine", job_uid="uid-1"))


def test_the_state_file_is_as_tensorflow_reads_it(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)

    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == f"{tmp_path}/ckpt-4"
    assert list(state.all_model_checkpoint_paths) == [f"{tmp_path}/ckpt-{i}" for i in (2, 3, 4)]
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{tmp_path}/ckpt-4"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["checkpoint"]
        + [f"ckpt-{i}{end}" for i in (2, 3, 4) for end in (".data-00000-of-00001", ".index")]
    )


def test_what_was_written_last_counts_though_its_step_is_lower(tmp_path: Path) -> None:
    save(tmp_path, 7, 5)

    assert resumed_step(job(tmp_path)) == 5


def test_checkpoints_of_the_manager_are_still_read(tmp_path: Path) -> None:
    step = tf.Variable(9, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=tf.Module(), step=step)
    tf.train.CheckpointManager(checkpoint, str(tmp_path), 3).save(9)

    assert resumed_step(job(tmp_path)) == 9


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(None, id="deleted"),
        pytest.param(b"", id="empty"),
        pytest.param(bytes(64), id="of zeros"),
        pytest.param(b"model_checkpoint_p", id="cut short"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_checkpoints_are_found_without_the_state_file(tmp_path: Path, left: bytes | None) -> None:
    kept = checkpoints.Checkpoints(str(tmp_path), keep=2, step=tf.Variable(5))
    for step in (1, 2, 10):
        kept.save(step, POSITION)
    state = tmp_path / "checkpoint"
    state.unlink()
    if left is not None:
        state.write_bytes(left)

    again = checkpoints.Checkpoints(str(tmp_path), keep=2, step=tf.Variable(0))
    assert again.restore() == f"{tmp_path}/ckpt-10"
    assert not (tmp_path / "ckpt-1.index").exists()


def test_a_checkpoint_after_which_a_chief_was_killed_is_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    save(tmp_path, 5)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_state", killed)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 7)
    assert resumed_step(job(tmp_path)) == 7

    # One that an attempt of before had written when this one went on from an older one.
    os.utime(tmp_path / "ckpt-7.index", (0, 0))
    assert resumed_step(job(tmp_path)) == 5


@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: None, id="deleted"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut short"),
        pytest.param(
            lambda data: data[: len(data) // 2] + b"!" * 64 + data[len(data) // 2 + 64 :],
            id="overwritten in the middle",
        ),
    ],
)
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(
    tmp_path: Path, end: str, damage: Callable[[bytes], bytes | None]
) -> None:
    def made() -> checkpoints.Checkpoints:
        return checkpoints.Checkpoints(str(tmp_path), keep=2, table=table)

    table = tf.Variable(tf.zeros([1000]))
    kept = made()
    for step in (1, 2):
        table.assign(tf.fill([1000], float(step)))
        kept.save(step, POSITION)
    file = tmp_path / f"ckpt-2{end}"
    left = damage(file.read_bytes())
    file.unlink()
    if left is not None:
        file.write_bytes(left)
    table.assign(tf.zeros([1000]))

    assert made().restore() == f"{tmp_path}/ckpt-1"
    assert table.numpy().tolist() == [1.0] * 1000


def test_a_kill_while_the_only_checkpoint_is_written_again_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After callbacks at the end, which may have changed weights, it is: not in one moment."""

    def made() -> checkpoints.Checkpoints:
        return checkpoints.Checkpoints(str(tmp_path), keep=1, table=table)

    table = tf.Variable(tf.ones([1000]))
    kept = made()
    kept.save(7, POSITION)

    def killed(path: tf.Tensor) -> None:
        # TensorFlow moves the data to their place before the index.
        Path(f"{path.numpy().decode()}.data-00000-of-00001").write_bytes(b"others")
        raise KeyboardInterrupt

    monkeypatch.setattr(kept, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        kept.save(7, POSITION)
    table.assign(tf.zeros([1000]))
    again = made()
    assert again.restore() == f"{tmp_path}/ckpt-7-before"
    assert table.numpy().tolist() == [1.0] * 1000

    again.save(7, POSITION)
    assert made().restore() == f"{tmp_path}/ckpt-7"
    left = ["checkpoint", "ckpt-7.data-00000-of-00001", "ckpt-7.index"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_the_only_checkpoint_is_written_again_though_there_is_no_room_for_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tf.Variable(tf.zeros([1000]))
    kept = checkpoints.Checkpoints(str(tmp_path), keep=1, table=table)
    kept.save(7, POSITION)

    def is_full(_: str, to: str, **__: object) -> None:
        Path(to).write_text("half")
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.io.gfile, "copy", is_full)
    table.assign(tf.ones([1000]))
    kept.save(7, POSITION)
    table.assign(tf.zeros([1000]))
    assert kept.restore() == f"{tmp_path}/ckpt-7"
    assert table.numpy().tolist() == [1.0] * 1000
    assert not list(tmp_path.glob("*before*"))


def test_parts_that_a_killed_ps_left_are_no_checkpoint_and_removed_by_who_writes(
    tmp_path: Path,
) -> None:
    save(tmp_path, 3)
    parts = tmp_path / "ckpt-9_temp"
    parts.mkdir()
    for end in ("index", "data-00000-of-00001", "data-00000-of-00001.tempstate123"):
        (parts / f"part-00000-of-00002.{end}").write_text("half")
    of = job(tmp_path)
    assert resumed_step(of) == 3
    assert parts.exists()

    resume(of, tf.Module(), tf.Variable(0, dtype=tf.int64), fence=claimed(of))
    assert not parts.exists()
    assert (tmp_path / "ckpt-3.index").exists()


def test_a_volume_that_is_full_of_what_a_killed_chief_left_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, replace = tmp_path / "ckpt-9_temp", files.replace

    def where_there_is_room(path: str, text: str) -> None:
        if parts.exists():
            raise tf.errors.ResourceExhaustedError(None, None, f"{path}; No space left on device")
        replace(path, text)

    claim(job(tmp_path, job="mine", job_uid="uid-1"))
    parts.mkdir()
    monkeypatch.setattr(files, "replace", where_there_is_room)
    with pytest.raises(CheckpointUnavailableError, match="No space left"):
        claim(job(tmp_path, job="mine", job_uid="uid-2"))
    assert parts.exists(), "it is another job's"
    claimed(job(tmp_path, job="mine", job_uid="uid-1", attempt="1")).check()
    assert not parts.exists()


def test_data_that_a_chief_left_which_was_killed_while_it_saved_or_pruned_are_removed(
    tmp_path: Path,
) -> None:
    """TensorFlow writes a checkpoint's index last, and pruning deletes it first."""
    save(tmp_path, 3)
    data = [
        tmp_path / f"ckpt-{step}.data-0000{part}-of-00002" for step in (1, 9) for part in (0, 1)
    ]
    for each in data:
        each.write_text("large")
    own = tmp_path / "ckpt-weights.data-00000-of-00001"
    own.write_text("of the user's")
    of = job(tmp_path)
    assert resumed_step(of) == 3
    assert all(each.exists() for each in data), "who only reads removes nothing"

    resume(of, tf.Module(), tf.Variable(0, dtype=tf.int64), fence=claimed(of))
    assert not any(each.exists() for each in data)
    assert own.exists()
    assert resumed_step(of) == 3


def counting(*, thresholds: int, others: str) -> tf.keras.Model:
    """Make a model that has counted something."""
    made = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    area = tf.keras.metrics.AUC(num_thresholds=thresholds, from_logits=True, name="area")
    made.compile("sgd", "mse", [area, others])
    made.evaluate(tf.ones([4, 1]), tf.constant([[0.0], [1.0]] * 2), verbose=0)
    return made


def test_metrics_go_on_from_a_checkpoint_unless_they_were_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def restored(*, thresholds: int, others: str) -> dict[str, float]:
        model = counting(thresholds=thresholds, others=others)
        model.reset_metrics()
        kept = checkpoints.Checkpoints(str(tmp_path), keep=1, model=model)
        assert kept.restore() == f"{tmp_path}/ckpt-7"
        kept.save(7, POSITION)
        return {name: float(value) for name, value in model.get_metrics_result().items()}

    model = counting(thresholds=10, others="mae")
    wanted = {name: float(value) for name, value in model.get_metrics_result().items()}
    checkpoints.Checkpoints(str(tmp_path), keep=1, model=model).save(7, POSITION)
    for _ in range(2):
        assert restored(thresholds=10, others="mae") == wanted
    assert not caplog.records

    changed = {"loss": wanted["loss"], "area": 0.0, "mape": 0.0}
    for _ in range(2):
        assert restored(thresholds=20, others="mape") == changed
    # A checkpoint of an older trainer has none.
    tf.train.Checkpoint(model=model).write(f"{tmp_path}/ckpt-7")
    assert restored(thresholds=20, others="mape") == dict.fromkeys(changed, 0.0)


STALE = tf.errors.AbortedError(None, None, "checkpoint.new; Stale file handle")


def test_a_checkpoint_that_cannot_be_written_says_so_whatever_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = checkpoints.Checkpoints(str(tmp_path), keep=2, step=tf.Variable(5))

    def fails(*_: object, **__: object) -> None:
        raise STALE

    monkeypatch.setattr(tf.io.gfile, "rename", fails)
    with pytest.raises(CheckpointUnavailableError, match="cannot be written") as raised:
        kept.save(5, POSITION)
    # Under ParameterServer, who catches it asks whether a ps is lost.
    assert raised.value.__cause__ is STALE


def test_storage_that_is_away_does_not_make_training_go_back_to_an_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = checkpoints.Checkpoints(str(tmp_path), keep=2, step=tf.Variable(5))
    for step in (1, 2):
        kept.save(step, POSITION)

    def fails(*_: object, **__: object) -> None:
        raise STALE

    monkeypatch.setattr(tf.train.Checkpoint, "read", fails)
    with pytest.raises(CheckpointUnavailableError, match="cannot be read") as raised:
        kept.restore()
    assert raised.value.__cause__ is STALE


def test_the_time_of_a_checkpoint_that_vanished_is_unknown(tmp_path: Path) -> None:
    assert checkpoints.found_or_none(f"{tmp_path}/ckpt-1", 1) is None
