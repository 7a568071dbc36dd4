"""Checkpoints, the fence and the exported model at a gs:// location of a real object store."""

import json
import signal

from bucket import Bucket
from harness import DIGITS, EXPORTS, Computer, LoopbackCluster, Process, Servers, until

from tools.ports import free_port

RUN = "gs://models/run"
SHORT = (DIGITS, "--steps-per-epoch=10")
LONG = (*SHORT, "--epochs=100000", "--checkpoint-seconds=0.5", "--closure-seconds=0.1")


def start(
    here: Computer, bucket: Bucket, *arguments: str, attempt: int = 0, **more: str
) -> Process:
    """The single process of a job whose spec.checkpoint.uri is in the bucket."""
    env = {
        "TFTRAINING_JOB": "mine",
        "TFTRAINING_JOB_UID": "uid-1",
        "TFTRAINING_CHECKPOINT_DIR": RUN,
        "TFTRAINING_ATTEMPT": str(attempt),
    }
    return here.start(f"attempt-{attempt}", *arguments, env={**bucket.env, **env, **more})


def steps(bucket: Bucket) -> list[int]:
    # While a checkpoint is written, its parts lie in a folder of their own.
    found = bucket.objects("run/ckpt-")
    names = [name for name in found if name.endswith(".index") and "_temp" not in name]
    return sorted(int(name.removeprefix("run/ckpt-").removesuffix(".index")) for name in names)


def test_a_job_saves_resumes_is_fenced_off_and_exports(here: Computer, bucket: Bucket) -> None:
    first = start(here, bucket, *LONG)
    until(lambda: steps(bucket), "it saves")
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log
    saved = steps(bucket)[-1]

    older = start(here, bucket, *LONG, attempt=1, TFTRAINING_CHECKPOINT_STEP=str(saved))
    older.says(f"resumed from checkpoint {RUN}/ckpt-{saved}")
    until(lambda: steps(bucket)[-1] > saved, "it saves again")
    newer = start(here, bucket, *LONG, attempt=2)
    assert older.ends() == 143, older.log
    assert "attempt 2 of mine has taken over" in older.last_words
    newer.step_beyond(saved)
    newer.signal(signal.SIGTERM)
    assert newer.ends() == 143, newer.log
    saved = steps(bucket)[-1]

    epochs = saved // 10 + 2
    end = (*SHORT, f"--epochs={epochs}", EXPORTS)
    last = start(here, bucket, *end, attempt=3, TFTRAINING_CHECKPOINT_STEP=str(saved))
    assert last.ends() == 0, last.log
    done = json.loads(last.last_words)
    assert (done["resumedStep"], done["step"]) == (saved, epochs * 10)
    model = f"run/export/{epochs * 10}"
    assert {f"{model}/saved_model.pb", f"{model}/model.keras"} < set(bucket.objects(model))
    assert bucket.objects("run/logs/chief/events.out.tfevents.")


def test_each_ps_with_access_to_the_bucket_saves_its_own_variables(
    here: Computer, servers: Servers, bucket: Bucket
) -> None:
    own = {"chief": [f"localhost:{free_port()}"], "ps": [f"localhost:{free_port()}"]}
    cluster = LoopbackCluster({**servers.cluster.addresses, **own})
    here.start("ps-0", DIGITS, env={**cluster.env("ps"), **bucket.env}, serve=False)
    runs = [("one", ()), ("two", ("--epochs=2", "--resume-from=gs://models/one"))]
    for number, (folder, more) in enumerate(runs):
        env = cluster.env(
            "chief",
            TFTRAINING_CHECKPOINT_DIR=f"gs://models/{folder}",
            TFTRAINING_JOB_UID=f"uid-{number}",
            **bucket.env,
        )
        chief = here.start("chief", *SHORT, *more, env=env)
        assert chief.ends() == 0, chief.log
        assert "the chief saves and restores" not in chief.log
        assert json.loads(chief.last_words)["resumedStep"] == (10 if number else None)
    objects = bucket.objects("")
    assert {"one/ckpt-10.index", "two/ckpt-20.index"} < set(objects)
    assert not [name for name in objects if "_temp" in name]
