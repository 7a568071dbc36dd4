"""SIGTERM to a whole ParameterServer job: the chief saves while its servers still answer."""

import json
import signal
import time
from pathlib import Path

import pytest
from harness import DIGITS, Computer, LoopbackCluster, Process, until

SLOW = """
from tensorflow.python.data.experimental.ops import testing
import light_digits

model = light_digits.model

def dataset(split, context):
    return light_digits.dataset(split, context).apply(testing.sleep(200_000))
"""
"""A task whose steps take 0.2 s."""


def start(
    here: Computer, *arguments: str, servers_know: str = "localhost"
) -> tuple[Process, list[Process]]:
    cluster = LoopbackCluster.of(worker=2, ps=1)
    chief = cluster.addresses["chief"][0].replace("localhost", servers_know)
    known = LoopbackCluster(cluster.addresses | {"chief": [chief]})
    servers = [
        here.start(f"{role}-{index}", DIGITS, env=known.env(role, index), serve=False)
        for role, index in (("ps", 0), ("worker", 0), ("worker", 1))
    ]
    env = cluster.env("chief", TFTRAINING_CHECKPOINT_DIR=str(here.folder / "ckpt"))
    # The only checkpoint is the one that SIGTERM asks for.
    long = (DIGITS, "--epochs=1000", "--checkpoint-seconds=600")
    return here.start("chief", *long, *arguments, env=env), servers


def newest_step(folder: Path) -> int:
    text = (folder / "ckpt" / "checkpoint").read_text()
    return int(text.partition('"ckpt-')[2].partition('"')[0])


def test_also_where_no_name_resolves_any_more(here: Computer) -> None:
    """As when a job is deleted: its Service goes, and all names, when its pods get SIGTERM."""
    chief, servers = start(here, servers_know="chief.invalid")
    chief.step_beyond(20)
    reported = chief.progress()["step"]
    for process in servers:
        process.signal(signal.SIGTERM)
    time.sleep(0.5)
    chief.signal(signal.SIGTERM)

    assert chief.ends(patience=30) == 143, chief.last_words
    assert newest_step(here.folder) >= reported
    assert [server.ends(patience=1) for server in servers] == [0, 0, 0]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="asynchronous"),
        pytest.param(("--task=slow.py",), id="asynchronous with slow steps"),
        pytest.param(("--mode=synchronous",), id="synchronous"),
        pytest.param(("--mode=local",), id="local steps"),
        pytest.param(("--mode=fit",), id="Keras fit"),
    ],
)
def test_sigterm_to_all_at_once_leaves_a_checkpoint_of_the_last_step(
    here: Computer, arguments: tuple[str, ...]
) -> None:
    (here.folder / "slow.py").write_text(SLOW)
    chief, servers = start(here, *arguments)
    chief.step_beyond(20)
    reported = chief.progress()["step"]
    # The chief last, as it may happen when a node is drained.
    for process in (*servers, chief):
        process.signal(signal.SIGTERM)
    began = time.monotonic()

    assert chief.ends(patience=30) == 143, chief.last_words
    took = time.monotonic() - began
    assert f"terminated by SIGTERM at step {newest_step(here.folder)} of" in chief.last_words
    assert newest_step(here.folder) >= reported
    assert [server.ends(patience=5) for server in servers] == [0, 0, 0]
    assert took < 5, "the ps would have ended before"


def test_a_ps_serves_until_the_chief_is_gone_and_a_worker_ends_at_once(here: Computer) -> None:
    chief, (ps, *workers) = start(here)
    chief.step_beyond(20)
    workers[0].signal(signal.SIGTERM)
    assert workers[0].ends(patience=1) == 0
    ps.signal(signal.SIGTERM)
    time.sleep(1)
    assert ps.popen.poll() is None
    chief.kill()
    assert ps.ends(patience=1) == 0


def test_a_ps_serves_for_5_s_at_most(here: Computer) -> None:
    chief, (ps, *_) = start(here)
    chief.step_beyond(20)
    ps.signal(signal.SIGTERM)
    began = time.monotonic()

    assert ps.ends(patience=8) == 0
    assert 4.5 < time.monotonic() - began < 6.5


def test_a_ps_without_a_chief_ends_at_once(here: Computer) -> None:
    cluster = LoopbackCluster.of(worker=1, ps=1)
    told = json.loads(cluster.env("ps")["TF_CONFIG"])
    alone = {"cluster": {"ps": {"0": told["cluster"]["ps"][0]}}, "task": told["task"]}
    for config in (told, alone):
        ps = here.start("ps", DIGITS, env={"TF_CONFIG": json.dumps(config)}, serve=False)
        until(lambda ps=ps: "ps-0 serves" in ps.log, "it serves")
        ps.signal(signal.SIGTERM)
        assert ps.ends(patience=1) == 0
