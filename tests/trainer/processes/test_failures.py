"""What happens to a ParameterServer job when one of its processes does."""

import json
import signal
import time
from pathlib import Path

from harness import DIGITS, Computer, Process, Servers, free_port, until

# Long enough that no story sees its end, and a checkpoint every second.
LONG = (DIGITS, "--epochs=1000", "--checkpoint-seconds=1", "--log-seconds=1")


def start_chief(here: Computer, servers: Servers, *arguments: str) -> Process:
    env = servers.cluster.env("chief", TFTRAINING_CHECKPOINT_DIR=str(here.folder / "ckpt"))
    return here.start("chief", *LONG, *arguments, env=env)


def saved_step(chief: Process) -> int:
    document = chief.progress_until(lambda d: bool(d["lastCheckpoint"]), "a checkpoint")
    return int(document["lastCheckpoint"]["step"])


def cpu_seconds(process: Process) -> float:
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_a_killed_chief_resumes_and_sigterm_saves(here: Computer, servers: Servers) -> None:
    first = start_chief(here, servers)
    saved = saved_step(first)
    first.kill()

    second = start_chief(here, servers)
    second.says("resumed from checkpoint")
    assert second.step_beyond(saved) > saved

    second.signal(signal.SIGTERM)
    assert second.ends(patience=20) == 143
    assert "ended by SIGTERM at step" in second.last_words
    newest = (here.folder / "ckpt" / "checkpoint").read_text().partition('"')[2].partition('"')[0]
    assert f"at step {newest.removeprefix('ckpt-')} of" in second.last_words


def test_a_killed_worker_is_tolerated_and_rejoins(here: Computer, servers: Servers) -> None:
    chief = start_chief(here, servers)
    chief.step_beyond(100)
    servers.running["worker-1"].kill()
    chief.step_beyond(chief.progress()["step"] + 200)

    again = servers.start("worker", 1)
    again.says("worker-1 serves")
    idle = cpu_seconds(again)
    until(lambda: cpu_seconds(again) > idle + 0.5, "the new worker takes part")
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
    assert "no step for 3 s" in chief.last_words


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
