"""An epoch is every example once, by all workers together; across losses, restarts and scaling."""

import json
import signal
import time
from pathlib import Path

import coverage
import numpy as np
import pytest
import tensorflow as tf
from harness import Computer, LoopbackCluster, Process, Servers

from tools.ports import free_port

BATCH = 16
"""62 whole batches and one of 8: neither two nor three workers divide them."""
BATCHES = 63
MODES = ["asynchronous", "synchronous", "local", "fit"]


def start_chief(
    here: Computer, servers: Servers, *arguments: str, workers: int = 2, **variables: str
) -> Process:
    addresses = {**servers.cluster.addresses, "chief": [f"localhost:{free_port()}"]}
    addresses["worker"] = addresses["worker"][:workers]
    env = LoopbackCluster(addresses).env(
        "chief",
        TFTRAINING_CHECKPOINT_DIR=str(here.folder / "ckpt"),
        TFTRAINING_JOB_UID="uid-1",
        **variables,
    )
    return here.start("chief", coverage.TASK, f"--batch-size={BATCH}", *arguments, env=env)


def completed(process: Process) -> tuple[dict, np.ndarray]:
    """Its last document, and how often each example was seen."""
    assert process.ends() == 0, process.log
    done: dict = json.loads(process.last_words)
    assert done["step"] == done["totalSteps"]
    return done, coverage.seen(done["lastCheckpoint"]["path"])


def newest(folder: Path) -> str:
    name = (folder / "ckpt" / "checkpoint").read_text().split('"')[1]
    return str(folder / "ckpt" / name)


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_of_unshuffled_data_is_every_example_once(
    here: Computer, servers: Servers, mode: str
) -> None:
    says = f"made-{here.folder.name}"
    arguments = ["--epochs=2", f"--mode={mode}", f"--option=prints={says}"]
    arguments += ["--local-steps=5"] if mode == "local" else []
    done, seen = completed(start_chief(here, servers, *arguments))

    assert done["step"] == 2 * (32 if mode == "synchronous" else BATCHES)
    assert np.all(seen == 2), np.bincount(seen)
    assert done["repeatedExamples"] == 0
    made = [servers.running[f"worker-{i}"].log.count(f"{says} ") for i in range(2)]
    assert min(made) > 0
    # And what is prefetched of a third epoch. It was 4000 and more when each worker made them all.
    assert sum(made) < 3000, "each worker makes its own batches alone"


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("asynchronous", ["--option=shuffle=100", "--epochs=3"]),
        ("local", ["--option=shuffle=1000", "--local-steps=5", "--epochs=3"]),
        ("asynchronous", ["--option=unknown=1", f"--steps-per-epoch={BATCHES}", "--epochs=3"]),
        ("asynchronous", ["--option=unknown=1", f"--steps-per-epoch={BATCHES // 3}", "--epochs=9"]),
    ],
)
def test_a_training_that_is_resumed_goes_on_in_its_data(
    here: Computer, servers: Servers, mode: str, options: list[str]
) -> None:
    arguments = (f"--mode={mode}", *options, "--option=sleep=40000", "--closure-seconds=0.2")
    first = start_chief(here, servers, *arguments)
    first.step_beyond(80)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log
    seen = coverage.seen(newest(here.folder))
    # Asynchronous workers may be in two passes, one after the other, and no further.
    assert seen.sum() > 80 * BATCH
    assert seen.max() - seen.min() <= 2, np.bincount(seen)

    done, seen = completed(start_chief(here, servers, *arguments))
    assert done["resumedStep"] > 80
    assert np.all(seen == 3), np.bincount(seen)


@pytest.mark.parametrize("epochs", [6, 1], ids=["a third of a pass", "two passes"])
@pytest.mark.parametrize("strategy", [None, "Mirrored", "MultiWorkerMirrored"])
def test_passes_of_unknown_length_are_resumed_where_they_were_left(
    here: Computer, strategy: str | None, epochs: int
) -> None:
    """Two passes, in epochs of another length."""
    devices = 1 if strategy is None else 2
    arguments = (
        *(coverage.TASK, f"--batch-size={BATCH // devices}", f"--epochs={epochs}"),
        f"--steps-per-epoch={2 * BATCHES // epochs}",
        *("--option=unknown=1", "--option=shuffle=100", "--option=sleep=20000"),
        "--closure-seconds=0.2",
    )
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}

    def start() -> list[Process]:
        if strategy == "MultiWorkerMirrored":
            cluster = LoopbackCluster.of(strategy, worker=1)
            env = [cluster.env(role, **shared) for role in ("chief", "worker")]
            return [here.start("member", *arguments, env=each) for each in env]
        told = shared if strategy is None else {**shared, "TFTRAINING_STRATEGY": strategy}
        return [here.start("chief", *arguments, f"--logical-cpus={devices}", env=told)]

    # In the first pass, and in the second.
    for step in (30, 80):
        members = start()
        members[0].step_beyond(step)
        members[0].signal(signal.SIGTERM)
        assert {each.ends() for each in members} == {143}, members[0].log
    done, seen = completed(start()[0])
    assert done["resumedStep"] > 80
    assert np.all(seen == 2), np.bincount(seen)


def test_sharded_files_are_read_once_an_epoch_also_when_resumed(
    here: Computer, servers: Servers
) -> None:
    """Seven files, three of them empty, shuffled anew in each epoch and read three at a time."""
    folder = here.folder / "data"
    folder.mkdir()
    files = [tf.io.TFRecordWriter(str(folder / f"train-{n}.tfrecord")) for n in range(7)]
    for number in range(1000):
        files[number * number % 7].write(str(number).encode())
    for file in files:
        file.close()
    arguments = (f"--option=files={folder}", "--option=shuffle=100", "--option=sleep=40000")
    first = start_chief(here, servers, *arguments, "--closure-seconds=0.2", "--epochs=3")
    first.step_beyond(80)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log

    done, seen = completed(start_chief(here, servers, *arguments, "--epochs=3"))
    assert done["resumedStep"] > 80
    assert np.all(seen == 3), np.bincount(seen)


def test_a_synchronous_training_makes_all_its_epochs_with_any_number_of_workers(
    here: Computer, servers: Servers
) -> None:
    """Three times: one worker, two, and asynchronously."""
    slow = ("--option=sleep=40000", "--epochs=3", "--option=shuffle=100")
    first = start_chief(here, servers, *slow, "--mode=synchronous", workers=1)
    first.step_beyond(20)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log
    second = start_chief(here, servers, *slow, "--mode=synchronous")
    second.step_beyond(70)
    second.signal(signal.SIGTERM)
    assert second.ends() == 143, second.log
    assert coverage.seen(newest(here.folder)).min() >= 1

    done, seen = completed(start_chief(here, servers, *slow, workers=1))
    assert done["step"] > BATCHES
    # What a worker was computing at SIGTERM is counted there, although it was not applied.
    assert seen.min() >= 3
    assert np.mean(seen == 3) > 0.9


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
def test_what_a_lost_worker_had_in_hand_is_trained_on_by_others(
    here: Computer, servers: Servers, mode: str
) -> None:
    arguments = ("--epochs=2", f"--mode={mode}", "--option=sleep=40000", "--closure-seconds=0.3")
    chief = start_chief(here, servers, *arguments)
    chief.step_beyond(15)
    servers.running["worker-1"].kill()
    try:
        done, seen = completed(chief)
    finally:
        servers.start("worker", 1).says("worker-1 serves")

    assert seen.min() >= 2, "every example is seen in every epoch"
    repeated = int(np.sum(seen - 2))
    assert repeated <= 40 * BATCH, f"{repeated} examples were repeated"
    if mode == "asynchronous":
        # By whole batches: the last of a pass is smaller, and one may have been cut off.
        assert abs(done["repeatedExamples"] - repeated) <= 2 * BATCH
        if done["repeatedExamples"]:
            assert "examples were trained on again" in chief.log


def test_the_last_epoch_ends_with_what_a_worker_that_hangs_had_in_hand(
    here: Computer, servers: Servers
) -> None:
    # Most of a second for each function: between two of them a worker has nothing in hand.
    slow = ("--option=sleep=40000", "--steps-per-closure=24", f"--option=epochs={here.folder}")
    chief = start_chief(here, servers, *slow, "--epochs=1")
    chief.step_beyond(10)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    try:
        _, seen = completed(chief)
    finally:
        worker.signal(signal.SIGCONT)

    assert "of a worker that hangs are given to others" in chief.log
    assert json.loads((here.folder / "epoch-1.json").read_text()) == seen.tolist()


@pytest.mark.parametrize("mode", ["asynchronous", "local", "fit"])
def test_an_epoch_that_workers_are_at_when_sigterm_comes_ends_after_the_restart(
    here: Computer, servers: Servers, mode: str
) -> None:
    epochs = ["--epochs=2", f"--option=epochs={here.folder}", f"--mode={mode}"]
    epochs += ["--local-steps=8"] if mode == "local" else []
    # Each worker is at half of the first epoch, and is not waited for until it ends.
    slow = ("--option=sleep=200000", "--steps-per-closure=32")
    first = start_chief(here, servers, *epochs, *slow)
    first.step_beyond(7)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log
    assert "continuing without it" in first.log
    done, seen = completed(start_chief(here, servers, *epochs))

    of_first = np.asarray(json.loads((here.folder / "epoch-1.json").read_text()))
    assert of_first.min() == 1, np.bincount(of_first)
    assert np.all(seen - of_first == 1), np.bincount(seen - of_first)
    # By whole batches: the last of a pass is smaller.
    assert abs(done["repeatedExamples"] - int(np.sum(of_first - 1))) < BATCH


ENDS_IN_THAT_MOMENT = """
import sys
import time

sys.path.append({folder!r})
from task import callbacks, dataset, model
from tftrainer.parameter_server.dealer import Dealer

give_up = Dealer.give_up_waiting

def given_up(self, **more):
    give_up(self, **more)
    while not self.is_complete:
        time.sleep(0.05)

Dealer.give_up_waiting = given_up
"""


def test_the_last_step_counts_though_its_worker_ends_when_it_is_given_up(
    here: Computer, servers: Servers
) -> None:
    folder = coverage.TASK.removeprefix("--task=").removesuffix("/task.py")
    (here.folder / "moment.py").write_text(ENDS_IN_THAT_MOMENT.format(folder=folder))
    # Three batches, and the last of them when two are done.
    slow = ("--option=sleep=1500000", f"--option=examples={3 * BATCH}", "--steps-per-closure=1")
    chief = start_chief(here, servers, *slow, "--task=moment.py")
    chief.step_beyond(1)
    workers = [servers.running[f"worker-{number}"] for number in range(2)]
    for each in workers:
        each.signal(signal.SIGSTOP)
    try:
        chief.says("continuing without it")
    finally:
        for each in workers:
            each.signal(signal.SIGCONT)
    done, seen = completed(chief)

    assert np.all(seen == 1), np.bincount(seen)
    reader = tf.train.load_checkpoint(done["lastCheckpoint"]["path"])
    held = reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE")
    assert done["step"] == held == 3


def test_another_batch_size_goes_on_at_the_same_example(here: Computer, servers: Servers) -> None:
    slow = ("--option=sleep=40000", "--epochs=2", "--closure-seconds=0.2", "--option=shuffle=500")
    first = start_chief(here, servers, *slow)
    first.step_beyond(25)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log

    _, seen = completed(start_chief(here, servers, *slow, "--batch-size=100"))
    assert seen.min() >= 2
    # Less than a batch where it went on, and at each end of a range that was missing.
    assert int(np.sum(seen - 2)) < 300


def test_a_dataset_whose_sharding_is_off_is_read_by_each_worker_as_it_is(
    here: Computer, servers: Servers
) -> None:
    arguments = ("--option=own_order=1", "--option=sleep=40000", "--steps-per-closure=3")
    done, seen = completed(start_chief(here, servers, *arguments))

    assert done["step"] == BATCHES
    assert (seen.min(), seen.max()) == (0, 2), "both workers begin at the first example"


def test_one_process_and_a_gang_see_each_example_once(here: Computer) -> None:
    cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    arguments = (coverage.TASK, "--batch-size=20", "--epochs=2", "--option=shuffle=100")
    slow = (*arguments, "--option=sleep=50000", "--closure-seconds=0.2")
    chief, worker = (
        here.start(role, *slow, env=cluster.env(role, **shared)) for role in ("chief", "worker")
    )
    chief.step_beyond(5)
    chief.signal(signal.SIGTERM)
    assert (chief.ends(), worker.ends()) == (143, 143)

    # The rest of it by one process, in batches of half the size.
    alone = here.start("chief", *arguments, env={**shared, "TFTRAINING_JOB": "scenario"})
    _, seen = completed(alone)
    assert np.all(seen == 2), np.bincount(seen)


def test_a_gang_goes_on_where_asynchronous_workers_have_left_something_out(
    here: Computer, servers: Servers
) -> None:
    slow = ("--option=sleep=40000", "--closure-seconds=0.2", "--epochs=2")
    chief = start_chief(here, servers, *slow)
    chief.step_beyond(20)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    try:
        chief.step_beyond(int(chief.progress()["step"]) + 10)
        chief.signal(signal.SIGTERM)
        assert chief.ends() == 143, chief.log
    finally:
        worker.signal(signal.SIGCONT)
    seen = coverage.seen(newest(here.folder))
    assert seen.max() > 0
    assert seen.min() == 0, "worker 1 has left out what it had"

    told = {
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
        "TFTRAINING_JOB_UID": "uid-1",
        "TFTRAINING_STRATEGY": "Mirrored",
    }
    alone = here.start("chief", coverage.TASK, f"--batch-size={BATCH}", "--epochs=2", env=told)
    done, seen = completed(alone)
    assert seen.min() == 2
    assert done["repeatedExamples"] == np.sum(seen - 2)


@pytest.mark.parametrize("mode", ["asynchronous", "fit"])
def test_each_device_of_a_worker_sees_its_own_examples(
    here: Computer, servers: Servers, mode: str
) -> None:
    # As GPUs would be, which no machine of ours has.
    devices = (coverage.TASK, "--logical-cpus=2")
    addresses = {**servers.cluster.addresses, "worker": [f"localhost:{free_port()}"]}
    own = Servers(here, LoopbackCluster(addresses))
    here.start("worker-0", *devices, env=own.cluster.env("worker"), serve=False)
    # The last batch of 1 goes to both.
    arguments = (f"--mode={mode}", "--epochs=2", "--option=examples=1001", "--steps-per-closure=5")
    done, seen = completed(start_chief(here, own, *devices, *arguments, "--batch-size=10"))

    assert done["step"] == 2 * 51
    assert np.all(seen[:-1] == 2), np.bincount(seen)
    assert seen[-1] == 4


@pytest.mark.parametrize("mode", ["Mirrored", "asynchronous", "fit"])
def test_another_number_of_devices_at_a_resume_makes_the_same_epochs(
    here: Computer, servers: Servers, mode: str
) -> None:
    """One device, two, and one again: a step takes 20 examples, 40, and 20."""
    own = {devices: Servers(here, servers.cluster) for devices in (1, 2)}
    if mode != "Mirrored":
        for devices, known in own.items():
            worker = {**servers.cluster.addresses, "worker": [f"localhost:{free_port()}"]}
            known.cluster = LoopbackCluster(worker)
            start = (coverage.TASK, f"--logical-cpus={devices}")
            env = known.cluster.env("worker")
            here.start(f"worker of {devices}", *start, env=env, serve=False)

    def begun(devices: int) -> Process:
        # Of start_chief's --batch-size and this, the last one counts.
        several = (f"--logical-cpus={devices}", "--batch-size=20", "--epochs=3")
        slow = ("--option=sleep=40000", "--option=shuffle=100", "--closure-seconds=0.2")
        if mode != "Mirrored":
            return start_chief(here, own[devices], *several, *slow, f"--mode={mode}")
        told = {
            "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
            "TFTRAINING_JOB_UID": "uid-1",
            "TFTRAINING_STRATEGY": mode,
        }
        return here.start("chief", coverage.TASK, *several, *slow, env=told)

    totals = []
    for devices in (1, 2):
        process = begun(devices)
        first = int(process.progress_until(lambda d: d["step"] > 0, "a step")["step"])
        process.step_beyond(first + 20)
        totals.append(process.progress()["totalSteps"])
        process.signal(signal.SIGTERM)
        assert process.ends() == 143, process.log
    done, seen = completed(begun(1))

    assert totals[0] == 3 * 50
    # What is left is made in half of the steps, and then in whole ones again.
    assert totals[1] < done["totalSteps"] < totals[0]
    assert seen.min() == 3, np.bincount(seen)
    # Where a step of 20 ends in the middle of one of 40.
    assert int(np.sum(seen - 3)) < 2 * 40


@pytest.mark.parametrize("mode", ["asynchronous", "fit"])
def test_an_epoch_ends_where_all_that_is_left_of_it_was_of_one_worker(
    here: Computer, servers: Servers, mode: str
) -> None:
    """The other one has finished its share when the checkpoint is saved."""
    slow = ("--option=sleep=40000", "--closure-seconds=0.2", f"--option=epochs={here.folder}")
    arguments = (*slow, "--epochs=2", f"--mode={mode}")
    chief = start_chief(here, servers, *arguments)
    chief.step_beyond(10)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    try:
        chief.step_beyond(42)
        chief.signal(signal.SIGTERM)
        assert chief.ends() == 143, chief.log
    finally:
        worker.signal(signal.SIGCONT)
    assert not (here.folder / "epoch-1.json").exists()

    _, seen = completed(start_chief(here, servers, *arguments))
    assert seen.min() >= 2
    assert min(json.loads((here.folder / "epoch-1.json").read_text())) >= 1


@pytest.mark.parametrize("fate", ["killed", "late"])
def test_a_worker_that_goes_on_with_the_share_of_another_may_read_up_to_there(
    here: Computer, servers: Servers, fate: str
) -> None:
    """It takes longer than a step may, and than a worker that hangs is waited for."""
    # A batch is read in 0.2 s, by each worker.
    slow = ("--option=sleep=200000", "--closure-seconds=0.4", "--stall-seconds=7")
    chief = start_chief(here, servers, *slow, "--epochs=1")
    worker = servers.running["worker-1"]
    if fate == "killed":
        chief.step_beyond(48)
        worker.kill()
    else:
        chief.step_beyond(15)
        worker.signal(signal.SIGSTOP)
        time.sleep(4)
        worker.signal(signal.SIGCONT)
    try:
        done, seen = completed(chief)
    finally:
        if fate == "killed":
            servers.start("worker", 1).says("worker-1 serves")

    assert "hangs" not in chief.log
    assert seen.min() >= 1
    if fate == "late":
        assert np.all(seen == 1), np.bincount(seen)
        assert done["repeatedExamples"] == 0


ENDLESS = """
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made

def dataset(split, context):
    turns = tf.data.Dataset.range(tf.int64.max).apply(testing.sleep(20_000)).repeat()

    def batch(i, _):
        tf.print(context.options["prints"], i)
        return tf.ones([8, 1]), tf.ones([8, 1])

    # What is read, since it is not the last call that maps.
    read = tf.data.Dataset.zip((tf.data.Dataset.range(100).repeat(), turns)).map(batch)
    return read.repeat()
"""


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
def test_what_repeats_for_ever_is_read_once(here: Computer, servers: Servers, mode: str) -> None:
    """A worker that goes on where another should have would read all from the beginning again."""
    (here.folder / "endless.py").write_text(ENDLESS)
    says = f"read-{here.folder.name}"
    arguments = ("--steps-per-epoch=40", "--epochs=6", f"--mode={mode}", "--closure-seconds=0.2")
    task = (f"--task={here.folder / 'endless.py'}", f"--option=prints={says}")
    chief = start_chief(here, servers, *arguments, *task)
    chief.step_beyond(60)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    time.sleep(2)
    worker.signal(signal.SIGCONT)
    assert chief.ends() == 0, chief.log
    done = json.loads(chief.last_words)

    assert done["step"] == 240 // (2 if mode == "synchronous" else 1)
    read = [servers.running[f"worker-{i}"].log.count(f"{says} ") for i in range(2)]
    # All that there is by each of them, and what is prefetched.
    assert sum(read) < 2 * 240 + 200, read


def test_who_rejoins_makes_a_pass_again_at_most_where_its_length_is_not_known(
    here: Computer, servers: Servers
) -> None:
    says = f"made-{here.folder.name}"
    unknown = ("--option=unknown=1", f"--steps-per-epoch={BATCHES}", f"--option=prints={says}")
    paced = ("--option=sleep=10000", "--closure-seconds=0.2", "--epochs=1000")
    chief = start_chief(here, servers, *unknown, *paced)
    chief.step_beyond(5 * BATCHES)
    servers.running["worker-1"].kill()

    def speed(document: dict) -> float:
        return float(document["workers"][1]["examplesPerSecond"])

    chief.progress_until(lambda d: speed(d) == 0, "worker-1 is lost")
    assert chief.progress()["step"] > 10 * BATCHES
    again = servers.start("worker", 1)
    again.says("worker-1 serves")
    chief.progress_until(lambda d: speed(d) > 0, "worker-1 trains")
    # And some that are made meanwhile, rather than all since the chief began.
    assert again.log.count(f"{says} ") < 6 * BATCHES * BATCH
