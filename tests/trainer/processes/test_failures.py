"""What happens to a ParameterServer job when one of its processes does."""

import json
import signal
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from harness import DIGITS, EXAMPLE, Computer, LoopbackCluster, Process, Servers, until
from relay import Relay

from tools.ports import free_port

# Long enough that no scenario reaches its end, and a checkpoint every second.
LONG = (EXAMPLE, "--epochs=1000", "--checkpoint-seconds=1", "--log-seconds=1")


BIG = """
import tensorflow as tf

def model():
    made = tf.keras.Sequential([
        tf.keras.layers.Input([4], dtype=tf.int32),
        tf.keras.layers.Embedding(500_000, 100),
        tf.keras.layers.GlobalAveragePooling1D(),
        tf.keras.layers.Dense(1),
    ])
    made.compile(tf.keras.optimizers.SGD(), "mse")
    return made

def dataset(split, context):
    words = tf.random.stateless_uniform([9999, 4], [1, 2], maxval=500_000, dtype=tf.int32)
    return tf.data.Dataset.from_tensor_slices((words, tf.zeros([9999, 1]))).batch(64)
"""
"""A task with a variable of 200 MB."""

SLOW = """
from tensorflow.python.data.experimental.ops import testing
import light_digits

model = light_digits.model

def dataset(split, context):
    return light_digits.dataset(split, context).apply(testing.sleep(200_000))
"""
"""A task whose workers wait for their input most of the time."""


BUILDS_FOR_EVER = """
import time
import tensorflow as tf
from tftrainer.examples.mnist import dataset

def model():
    variable = tf.Variable(0.0)
    print("building", flush=True)
    while True:
        variable.assign_add(1.0)
        variable.numpy()
        time.sleep(0.05)
"""
"""A task whose model is being built, on a ps, for as long as the ps answers."""

BUILDS_AND_WRAPS = (
    BUILDS_FOR_EVER.replace("def model", "def build")
    + """
def model():
    try:
        return build()
    except Exception:
        raise ValueError("the model cannot be built")
"""
)

READS_FOR_EVER = """
import time
import tensorflow as tf
from light_digits import dataset, model

def read_for_ever():
    with tf.init_scope(), tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
        print("building", flush=True)
        while True:
            tf.identity(tf.constant(1.0)).numpy()
            time.sleep(0.05)
"""
"""A part of a task, to be called from a function, which uses a ps for as long as it answers."""

READS_IN_DATASET = (
    READS_FOR_EVER
    + """
def dataset(split, context):
    read_for_ever()
"""
)
READS_IN_CALLBACKS = (
    READS_FOR_EVER
    + """
def callbacks(context):
    read_for_ever()
"""
)
READS_IN_A_HOOK = (
    READS_FOR_EVER
    + """
class Reading(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        read_for_ever()

def callbacks(context):
    return [Reading()]
"""
)
READS_IN_A_STEP = (
    READS_FOR_EVER
    + """
def train_step(model, batch):
    read_for_ever()
"""
)
FAILS_LATER = """
import tensorflow as tf

def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    made.compile(loss="mse")
    return made

def check(number):
    tf.debugging.assert_none_equal(number, tf.constant(300, tf.int64))
    return tf.zeros([4, 2]), tf.zeros([4, 1])

def dataset(split, context):
    return tf.data.Dataset.range(500).map(check)
"""
"""A task with one wrong batch, which only one worker makes: the same one each time."""

WRONG = """
import tensorflow as tf
from tftrainer.examples.mnist import dataset

def model():
    return tf.reshape(tf.Variable([1.0, 2.0]), [3])
"""
"""A task with a mistake that TensorFlow finds."""


def start_chief(
    here: Computer, servers: Servers, *arguments: str, attempt: int = 0, **variables: str
) -> Process:
    # Each at an address of its own, as the pods of two attempts have.
    addresses = {**servers.cluster.addresses, "chief": [f"localhost:{free_port()}"]}
    env = LoopbackCluster(addresses).env(
        "chief",
        TFTRAINING_CHECKPOINT_DIR=str(here.folder / "ckpt"),
        TFTRAINING_JOB_UID="uid-1",
        TFTRAINING_ATTEMPT=str(attempt),
        **variables,
    )
    return here.start("chief", *LONG, *arguments, env=env)


def cut_off(way: Relay, servers: Servers) -> bool:
    time.sleep(1)
    return way.cut(servers.running["worker-1"].popen.pid) > 0


def _forgiven(chief: Process) -> int:
    return chief.log.count("treated as a transient connectivity failure")


def saved_step(chief: Process) -> int:
    document = chief.progress_until(lambda d: bool(d["lastCheckpoint"]), "a checkpoint")
    return int(document["lastCheckpoint"]["step"])


def memory(process: Process) -> float:
    """Bytes that the process has for itself; the least of 2 s, for a step needs more at times."""

    def now() -> int:
        status = Path(f"/proc/{process.popen.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) * 1024

    looks = [now()]
    for _ in range(20):
        time.sleep(0.1)
        looks.append(now())
    return min(looks)


def test_servers_find_the_chief_whatever_its_name_says(here: Computer, servers: Servers) -> None:
    """As after an outage of the API server, when a name server has the chief before."""
    addresses = {**servers.cluster.addresses, "chief": [f"old.invalid:{free_port()}"]}
    env = replace(servers.cluster, addresses=addresses).env(
        "chief",
        TFTRAINING_CHECKPOINT_DIR=str(here.folder / "ckpt"),
        TFTRAINING_JOB_UID="uid-1",
    )
    task = (DIGITS, "--steps-per-epoch=10", "--checkpoint-seconds=0.001")

    # Servers fetch what is restored from the chief.
    for epochs in (1, 2):
        chief = here.start("chief", *task, f"--epochs={epochs}", env=env)
        assert chief.ends() == 0, chief.log
    assert "resumed from checkpoint" in chief.log


def test_a_killed_chief_resumes_and_sigterm_saves(here: Computer, servers: Servers) -> None:
    first = start_chief(here, servers)
    saved = saved_step(first)
    first.kill()

    second = start_chief(here, servers)
    second.says("resumed from checkpoint")
    assert second.step_beyond(saved) > saved
    assert second.progress()["resumedStep"] >= saved

    second.signal(signal.SIGTERM)
    assert second.ends(patience=20) == 143
    assert "terminated by SIGTERM at step" in second.last_words
    newest = (here.folder / "ckpt" / "checkpoint").read_text().partition('"')[2].partition('"')[0]
    assert f"at step {newest.removeprefix('ckpt-')} of" in second.last_words


def test_a_killed_worker_is_tolerated_and_rejoins(here: Computer, servers: Servers) -> None:
    chief = start_chief(here, servers)
    chief.step_beyond(100)
    servers.running["worker-1"].kill()
    chief.step_beyond(chief.progress()["step"] + 200)

    again = servers.start("worker", 1)
    again.says("worker-1 serves")
    idle = again.cpu_seconds()
    until(lambda: again.cpu_seconds() > idle + 0.5, "the new worker takes part", patience=20)
    chief.step_beyond(chief.progress()["step"] + 100)
    assert chief.popen.poll() is None


def test_a_lost_ps_ends_the_chief_with_75_and_the_next_resumes(
    here: Computer, servers: Servers
) -> None:
    chief = start_chief(here, servers)
    saved = saved_step(chief)
    servers.running["ps-0"].kill()

    assert chief.ends(patience=30) == 75
    assert "a parameter server was lost" in chief.last_words

    servers.start("ps", 0)
    second = start_chief(here, servers)
    second.says("resumed from checkpoint")
    assert second.step_beyond(saved) > saved


def test_a_hung_worker_is_named_and_left_aside_until_it_is_back(
    here: Computer, servers: Servers
) -> None:
    # gRPC would give it up after 20 to 30 s; here the others have to do without that.
    patient = {"TF_GRPC_DEFAULT_OPTIONS": "grpc.keepalive_time_ms=600000"}
    chief = start_chief(here, servers, **patient)
    chief.step_beyond(100)
    saved_step(chief)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    try:
        named = chief.progress_until(lambda d: d["unreachable"] != [], "worker-1 is named")
        assert time.monotonic() - stopped_at < 15
        assert [each["task"] for each in named["unreachable"]] == ["worker-1"]
        assert "does not answer" in named["unreachable"][0]["reason"]
        # Neither an epoch's end nor a checkpoint waits for it, but the first.
        chief.says("continuing without it")
        before = chief.progress()["lastCheckpoint"]["step"]
        chief.progress_until(lambda d: d["lastCheckpoint"]["step"] > before + 200, "checkpoints")
        # On a crowded machine the other one may be late as well, once.
        assert chief.log.count("continuing without it") <= 2
        until(lambda: chief.log.count("saved checkpoint") > 3, "several checkpoints")
        assert "failed with" not in chief.log
    finally:
        worker.signal(signal.SIGCONT)
    idle = worker.cpu_seconds()
    until(lambda: worker.cpu_seconds() > idle + 0.5, "it takes part again", patience=20)
    chief.progress_until(lambda d: d["unreachable"] == [], "it is not missed any more")


@pytest.mark.parametrize(
    ("task", "mode", "losses"),
    [
        pytest.param(None, "asynchronous", 6, id="at work"),
        pytest.param(SLOW, "asynchronous", 6, id="waiting for its input"),
        pytest.param(SLOW, "fit", 2, id="waiting for its input, in fit"),
    ],
)
def test_a_worker_that_loses_its_way_to_the_ps_now_and_then_ends_nothing(
    here: Computer, servers: Servers, task: str | None, mode: str, losses: int
) -> None:
    given = [f"--mode={mode}"]
    if task:
        (here.folder / "slow.py").write_text(task)
        given.append("--task=slow.py")
    with closing(Relay(int(servers.cluster.addresses["ps"][0].rpartition(":")[2]))) as way:
        addresses = {**servers.cluster.addresses, "ps": [f"127.0.0.1:{way.port}"]}
        chief = start_chief(here, replace(servers, cluster=LoopbackCluster(addresses)), *given)
        chief.step_beyond(10)

        def lost() -> bool:
            assert chief.popen.poll() is None, chief.last_words
            return cut_off(way, servers) and _forgiven(chief) >= losses

        # A call that waits for gRPC to connect again is not lost: not every cut is noticed.
        until(lost, f"{losses} losses", patience=60)
        chief.step_beyond(chief.progress()["step"] + 10)
        assert chief.popen.poll() is None


def test_a_worker_whose_name_a_ps_cannot_resolve_for_a_while_ends_nothing(
    here: Computer, servers: Servers
) -> None:
    """As where one of several name servers is behind the one that the chief asks."""
    worker = servers.cluster.addresses["worker"]
    port = worker[1].rpartition(":")[2]
    addresses = {
        "chief": [f"localhost:{free_port()}"],
        "worker": [worker[0], f"scenario-worker-1.test:{port}"],
        "ps": [f"localhost:{free_port()}"],
    }
    cluster = LoopbackCluster(addresses)
    all_names, behind = here.folder / "all.hosts", here.folder / "behind.hosts"
    all_names.write_text("127.0.0.1 localhost scenario-worker-1.test\n")
    behind.write_text("127.0.0.1 localhost\n")
    here.start("ps-0", DIGITS, env=cluster.env("ps"), serve=False, hosts=behind)
    chief = here.start("chief", *LONG, env=cluster.env("chief"), hosts=all_names)

    chief.says("ps-0 cannot reach worker-1")
    chief.step_beyond(chief.progress()["step"] + 200)
    named = servers.running["worker-1"]
    idle = named.cpu_seconds()
    behind.write_text(all_names.read_text())
    until(lambda: named.cpu_seconds() > idle + 1, "worker-1 takes part")
    assert chief.popen.poll() is None, chief.last_words


@pytest.mark.parametrize(
    ("task", "restarts"),
    [
        pytest.param(BUILDS_FOR_EVER, False, id="in model, and stays away"),
        pytest.param(BUILDS_FOR_EVER, True, id="in model, and is restarted"),
        pytest.param(BUILDS_AND_WRAPS, False, id="in model, which raises another error from it"),
        pytest.param(BUILDS_AND_WRAPS, True, id="the same, and is restarted"),
        pytest.param(READS_IN_DATASET, True, id="in dataset"),
        pytest.param(READS_IN_CALLBACKS, True, id="in callbacks"),
        pytest.param(READS_IN_A_HOOK, True, id="in a callback's hook"),
        pytest.param(READS_IN_A_STEP, True, id="in train_step, while it is traced"),
    ],
)
def test_a_ps_lost_while_the_users_code_runs_is_not_the_users_mistake(
    here: Computer, servers: Servers, task: str, *, restarts: bool
) -> None:
    (here.folder / "builds.py").write_text(task)
    chief = start_chief(here, servers, "--task=builds.py")
    chief.says("building")
    servers.running["ps-0"].kill()
    if restarts:
        servers.start("ps", 0)

    code = chief.ends(patience=60)
    if not restarts:
        servers.start("ps", 0)
    assert code == 75, chief.last_words
    assert "a parameter server was lost" in chief.last_words


STALE = """
import tensorflow as tf
from light_digits import dataset, model

def fail(*_, **__):
    raise tf.errors.AbortedError(None, None, "Stale file handle")

class Failing(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        WHAT

def callbacks(context):
    return [Failing()]
"""
"""A task that meets what a volume of NFS gives when its server has restarted."""


@pytest.mark.parametrize(
    ("what", "code"),
    [
        pytest.param("tf.io.gfile.rename = fail", 74, id="the trainer, when it saves"),
        pytest.param("fail()", 69, id="the user's code"),
    ],
)
def test_storage_that_fails_is_no_lost_ps_while_all_servers_answer(
    here: Computer, servers: Servers, what: str, code: int
) -> None:
    (here.folder / "stale.py").write_text(STALE.replace("WHAT", what))
    chief = start_chief(here, servers, "--task=stale.py")

    assert chief.ends(patience=60) == code, chief.log
    assert "Stale file handle" in chief.last_words


def test_an_error_of_the_users_model_is_a_bad_configuration_while_all_servers_answer(
    here: Computer, servers: Servers
) -> None:
    (here.folder / "wrong.py").write_text(WRONG)
    chief = start_chief(here, servers, "--task=wrong.py")

    assert chief.ends(patience=60) == 64
    assert "model() of wrong.py raised InvalidArgumentError" in chief.last_words


def test_the_same_failure_of_the_users_code_gives_the_same_text(
    here: Computer, servers: Servers
) -> None:
    (here.folder / "fails.py").write_text(FAILS_LATER)
    texts = []
    for attempt in range(2):
        chief = start_chief(here, servers, "--task=fails.py", attempt=attempt)
        assert chief.ends(patience=60) == 1, chief.last_words
        texts.append(chief.last_words)

    assert texts[0].startswith("InvalidArgumentError: assertion failed: [")
    # If a ps tells of it before the worker does, file and line are not known.
    place = f" ({here.folder / 'fails.py'}, line 10)"
    first, second = (text.removesuffix(place) for text in texts)
    assert first.endswith("[300] (in the function passed to MapDataset)")
    assert second == first


def test_a_ps_that_is_silent_for_a_while_keeps_its_variables(
    here: Computer, servers: Servers
) -> None:
    """As on a machine with too much to do, just while a worker is replaced.

    TensorFlow makes a ps anew, without its variables, if it misses a ping then.
    """
    chief = start_chief(here, servers)
    before = chief.step_beyond(100)
    ps = servers.running["ps-0"]
    ps.signal(signal.SIGSTOP)
    try:
        servers.running["worker-1"].kill()
        servers.start("worker", 1)
        # Longer than 15 s, after which it was lost at the latest; shorter than 20.
        time.sleep(16)
    finally:
        ps.signal(signal.SIGCONT)
    chief.step_beyond(before + 200)


def test_a_hung_ps_ends_the_chief_with_75(here: Computer, servers: Servers) -> None:
    chief = start_chief(here, servers)
    chief.step_beyond(100)
    ps = servers.running["ps-0"]
    ps.signal(signal.SIGSTOP)
    try:
        # 20 s; 30 if it hits a save, as TensorFlow then waits for another connection.
        assert chief.ends(patience=60) == 75
    finally:
        ps.signal(signal.SIGCONT)


def test_the_chief_of_an_older_attempt_makes_way(here: Computer, servers: Servers) -> None:
    older = start_chief(here, servers)
    saved = saved_step(older)
    newer = start_chief(here, servers, attempt=1)

    # It finds its variables gone, or the newer attempt in the way of its next checkpoint.
    assert older.ends(patience=60) in (75, 143)
    assert newer.step_beyond(saved) > saved
    assert newer.progress()["resumedStep"] >= saved

    again = start_chief(here, servers)
    assert again.ends() == 143
    assert "attempt 1 of scenario has taken over" in again.last_words
    newer.step_beyond(newer.progress()["step"])


def test_lost_chiefs_leave_no_memory_behind(here: Computer, servers: Servers) -> None:
    (here.folder / "big.py").write_text(BIG)
    big = ("--task=big.py", "--checkpoint-seconds=600")
    ps = servers.running["ps-0"]
    used = []
    for attempt in range(3):
        chief = start_chief(here, servers, *big, attempt=attempt)
        chief.step_beyond(5)
        used.append(memory(ps))
        chief.kill()

    # Each of the two lost ones leaves at least a whole copy behind, if nobody frees it: 400 MB.
    assert used[-1] < used[0] + 300e6, used


def test_a_chief_that_paused_for_too_long_ends_with_75(here: Computer, servers: Servers) -> None:
    # Long enough for a slow start, in which TensorFlow keeps nothing alive.
    chief = start_chief(here, servers, "--keep-alive-seconds=20")
    chief.step_beyond(5)
    chief.signal(signal.SIGSTOP)
    time.sleep(30)
    chief.signal(signal.SIGCONT)
    assert chief.ends(patience=30) == 75
    assert "a parameter server was lost" in chief.last_words


def test_hung_workers_end_the_chief_with_76(here: Computer, servers: Servers) -> None:
    chief = start_chief(here, servers, "--stall-seconds=3")
    chief.step_beyond(100)
    workers = [servers.running["worker-0"], servers.running["worker-1"]]
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    try:
        assert chief.ends(patience=30) == 76
    finally:
        for worker in workers:
            worker.signal(signal.SIGCONT)
    assert "no step completed for 3 s" in chief.last_words


def test_who_is_missing_is_said_within_ten_seconds(here: Computer, servers: Servers) -> None:
    addresses = {**servers.cluster.addresses, "ps": [f"localhost:{free_port()}"]}
    config = {"cluster": addresses, "task": {"type": "chief", "index": 0}}
    chief = here.start("chief", DIGITS, env={"TF_CONFIG": json.dumps(config)})
    began = time.monotonic()

    chief.progress_until(lambda d: d["waitingFor"] == ["ps-0"], "waiting for ps-0 alone")
    assert time.monotonic() - began < 10
    chief.says("waiting for ps-0 (connection refused)")
    assert chief.progress()["phase"] == "waiting"

    chief.signal(signal.SIGTERM)
    assert chief.ends(patience=5) == 143


def test_a_peer_that_never_comes_ends_the_chief_with_69(here: Computer, servers: Servers) -> None:
    addresses = {**servers.cluster.addresses, "worker": [f"localhost:{free_port()}"]}
    config = {"cluster": addresses, "task": {"type": "chief", "index": 0}}
    chief = here.start("chief", DIGITS, "--peer-timeout=1", env={"TF_CONFIG": json.dumps(config)})

    assert chief.ends() == 69
    assert "worker-0 (connection refused)" in chief.last_words


def test_a_server_ends_at_once_on_sigterm(servers: Servers) -> None:
    ps = servers.running["ps-0"]
    ps.says("ps-0 serves")
    ps.signal(signal.SIGTERM)
    began = time.monotonic()

    assert ps.ends(patience=5) == 0
    assert time.monotonic() - began < 1
    servers.start("ps", 0)
