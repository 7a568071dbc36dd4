"""Whose a checkpoint directory is: several jobs, and several uids of one name, on one volume."""

import json
import re
import signal
from pathlib import Path

from harness import DIGITS, Computer, LoopbackCluster, Process, until

SHORT = (DIGITS, "--steps-per-epoch=10")
LONG = (DIGITS, "--epochs=100000", "--checkpoint-seconds=0.2", "--closure-seconds=0.1")


def start(
    here: Computer, job: str, uid: str, *arguments: str, volume: str = "volume", **more: str
) -> Process:
    """A job of one process whose volume is mounted as the operator does it."""
    env = {
        "TFTRAINING_JOB": job,
        "TFTRAINING_JOB_UID": uid,
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / volume),
    }
    return here.start(job, *arguments, env=env | more)


def steps(folder: Path) -> list[int]:
    return sorted(int(path.stem.removeprefix("ckpt-")) for path in folder.glob("ckpt-*.index"))


def test_a_completed_training_of_another_uid_is_not_this_jobs_success(here: Computer) -> None:
    first = start(here, "mine", "uid-1", *SHORT)
    assert first.ends() == 0, first.log

    again = start(here, "mine", "uid-2", *SHORT)
    assert again.ends() == 64, again.log
    assert "holds the completed training of job mine (uid uid-1): step 10" in again.last_words
    assert "not the result of job mine (uid uid-2)" in again.last_words
    assert "spec.checkpoint.resumeFrom (--resume-from)" in again.last_words

    # Its own restart after the end has nothing left to do.
    restarted = start(here, "mine", "uid-1", *SHORT, TFTRAINING_CHECKPOINT_STEP="10")
    assert restarted.ends() == 0, restarted.log

    volume = f"{here.folder}/volume"
    same = start(here, "mine", "uid-3", *SHORT, f"--resume-from={volume}")
    assert same.ends() == 64, same.log
    assert "nothing is left to train" in same.last_words
    longer = start(here, "mine", "uid-4", *SHORT, "--epochs=3", TFTRAINING_RESUME_FROM=volume)
    assert longer.ends() == 0, longer.log
    assert "training from step 10 to step 30" in longer.log


def test_an_unfinished_training_of_the_same_name_is_resumed_and_said(here: Computer) -> None:
    first = start(here, "mine", "uid-1", *LONG)
    first.step_beyond(0)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143
    step = steps(here.folder / "volume")[-1]

    again = start(here, "mine", "uid-2", *LONG)
    again.says(f"resumed from step {step} of job mine (uid uid-1)")
    assert (
        again.progress_until(lambda d: d["phase"] == "training", "it trains")["resumedStep"] == step
    )
    again.kill()


def test_two_jobs_on_one_volume_keep_their_checkpoints_apart(here: Computer) -> None:
    volume = here.folder / "volume"
    one = start(here, "one", "uid-1", *LONG)
    until(lambda: steps(volume), "one saves")
    other = start(here, "other", "uid-2", *LONG)
    until(lambda: steps(volume / "other"), "the other saves")
    assert "training from step 0 to" in other.log
    one.kill()
    last = steps(volume)[-1]
    later = steps(volume / "other")[-1]
    until(lambda: steps(volume / "other")[-1] > later, "the other saves again")

    for job, uid, folder in (("one", "uid-1", volume), ("other", "uid-2", volume / "other")):
        other.kill()
        again = start(here, job, uid, *LONG, TFTRAINING_ATTEMPT="1")
        again.says("resumed from checkpoint")
        assert f"resumed from checkpoint {folder}/ckpt-" in again.log
        again.kill()
    assert last in steps(volume) or last < steps(volume)[0]


def test_the_evaluator_evaluates_its_own_jobs_checkpoints_on_a_shared_volume(
    here: Computer,
) -> None:
    volume = here.folder / "volume"
    one = start(here, "one", "uid-1", *SHORT)
    assert one.ends() == 0, one.log

    config = {"cluster": {"evaluator": ["localhost:1"]}, "task": {"type": "evaluator", "index": 0}}
    evaluator = start(here, "other", "uid-2", *SHORT, TF_CONFIG=json.dumps(config))
    evaluator.says(f"waiting for the chief to use {volume}/other")
    chief = start(here, "other", "uid-2", *SHORT, "--epochs=2")
    assert (chief.ends(), evaluator.ends()) == (0, 0), chief.log + evaluator.log
    evaluated = json.loads(evaluator.last_words)
    assert evaluated["step"] == 20
    assert evaluated["lastCheckpoint"]["path"] == f"{volume}/other/ckpt-20"
    assert (volume / "other/logs/evaluator").is_dir()


def test_all_members_of_a_cluster_find_the_directory_of_their_job(here: Computer) -> None:
    volume = here.folder / "volume"
    one = start(here, "one", "uid-1", *SHORT)
    assert one.ends() == 0, one.log

    for epochs, resumed in ((2, None), (3, 20)):
        cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
        members = [
            start(
                *(here, "other", "uid-2", DIGITS, "--steps-per-epoch=10", f"--epochs={epochs}"),
                **{key: env[key] for key in ("TF_CONFIG", "TFTRAINING_STRATEGY")},
            )
            for env in (cluster.env("chief"), cluster.env("worker"))
        ]
        assert [member.ends() for member in members] == [0, 0], members[0].log + members[1].log
        told = [json.loads(member.last_words) for member in members]
        assert [(each["step"], each["resumedStep"]) for each in told] == [
            (epochs * 10, resumed)
        ] * 2
        # It is as if it was stopped before the end.
        (volume / "other/complete.json").unlink()
    assert (steps(volume), steps(volume / "other")) == ([10], [20, 30])


def test_a_directory_that_is_named_for_one_job_is_refused_to_another(here: Computer) -> None:
    arguments = (*SHORT, f"--checkpoint-dir={here.folder}/runs")
    one = start(here, "one", "uid-1", *LONG, f"--checkpoint-dir={here.folder}/runs")
    until(lambda: steps(here.folder / "runs"), "one saves")

    other = start(here, "other", "uid-2", *arguments)
    assert other.ends() == 64, other.log
    assert "belongs to job one (uid uid-1), not to job other (uid uid-2)" in other.last_words

    other = start(here, "other", "uid-2", *arguments, f"--resume-from={here.folder}/runs")
    assert other.ends() == 64, other.log
    assert re.search(r"job one \(uid uid-1\) wrote to \S+ \d+ s ago", other.last_words)
    one.step_beyond(one.progress()["step"])
    one.kill()


def test_two_running_jobs_of_one_name_do_not_take_turns(here: Computer) -> None:
    first = start(here, "mine", "uid-1", *LONG)
    until(lambda: steps(here.folder / "volume"), "the first saves")
    second = start(here, "mine", "uid-2", *LONG)
    second.says("resumed from step")

    assert first.ends() == 74, first.log
    assert "job mine (uid uid-2) has taken over" in first.last_words
    again = start(here, "mine", "uid-1", *LONG, TFTRAINING_ATTEMPT="1")
    assert again.ends() == 64, again.log
    assert "two running jobs use one directory" in again.last_words
    second.step_beyond(second.progress()["step"])
    second.kill()


def test_another_training_can_be_gone_on_from_in_a_directory_of_ones_own(here: Computer) -> None:
    volume = here.folder / "volume"
    first = start(here, "old", "uid-1", *SHORT)
    assert first.ends() == 0, first.log

    new = start(here, "new", "uid-2", *SHORT, "--epochs=2", f"--resume-from={volume}/ckpt-10")
    assert new.ends() == 0, new.log
    assert "training from step 10 to step 20" in new.log
    done = json.loads(new.last_words)
    assert done["lastCheckpoint"]["path"] == f"{volume}/new/ckpt-20"
    assert (steps(volume), steps(volume / "new")) == ([10], [20])

    missing = start(here, "third", "uid-3", *SHORT, f"--resume-from={volume}/nothing")
    assert missing.ends() == 64, missing.log
    assert f"there is no checkpoint in {volume}/nothing" in missing.last_words


def test_on_a_laptop_a_completed_training_is_said(here: Computer) -> None:
    for said in ("training from step 0 to step 10", "already complete at step 10"):
        laptop = here.start("laptop", *SHORT, f"--checkpoint-dir={here.folder}/ckpt")
        assert laptop.ends() == 0, laptop.log
        assert said in laptop.log


def test_a_location_that_tensorflow_cannot_write_is_refused_with_those_it_can(
    here: Computer,
) -> None:
    for role in ("chief", "evaluator"):
        config = {"cluster": {role: ["localhost:1"]}, "task": {"type": role, "index": 0}}
        process = here.start(
            role,
            *SHORT,
            env={
                "TF_CONFIG": json.dumps(config),
                "TFTRAINING_STRATEGY": "Mirrored",
                "TFTRAINING_JOB": "mine",
                "TFTRAINING_JOB_UID": "uid-1",
                "TFTRAINING_CHECKPOINT_DIR": "s3://bucket/mine",
            },
        )
        assert process.ends() == 64, process.log
        assert "s3://bucket/mine" in process.last_words
        assert "cannot read or write s3://" in process.last_words
        assert "gs://" in process.last_words


def test_a_directory_in_which_tensorflow_finds_nothing_again_is_refused(here: Computer) -> None:
    chief = start(here, "mine", "uid-1", *SHORT, volume="runs[1]")

    assert chief.ends() == 64, chief.log
    assert "runs[1]: TensorFlow takes [ in it for the beginning of a pattern" in chief.last_words
