"""Scripts in the form of TensorFlow's tutorial: the example's own, with real processes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from harness import ROOT, Computer, LoopbackCluster, Process, until
from tftrainer.config.cluster import Member, Role, Task
from tftrainer.peering.peers import StatusProbe

from tools.ports import free_port

EXAMPLE = ROOT / "examples/own-script.yaml"
TFTJ = ROOT / ".venv/bin/python"
SERVERS = (("worker", 0), ("worker", 1), ("ps", 0))
TUTORIAL = """\
server = tf.distribute.Server(
    resolver.cluster_spec(),
    job_name=resolver.task_type,
    task_index=resolver.task_id,
    protocol=resolver.rpc_layer or "grpc",
    start=True,
)
server.join()
"""
"""What TensorFlow's tutorial does in workers and ps."""


def script(name: str) -> str:
    """One of the scripts in the example's ConfigMap."""
    found = re.search(rf"^  {name}: \|\n((?:    .*\n|\n)+)", EXAMPLE.read_text(), re.MULTILINE)
    assert found is not None
    return dedent(found[1])


def written(here: Computer, name: str, changes: Mapping[str, str]) -> Path:
    text = script(name)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = here.folder / name
    path.write_text(text)
    return path


def start(here: Computer, path: Path, role: str, index: int, env: Mapping[str, str]) -> Process:
    """Run the script as one task, as its container would."""
    volume = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "volume")} if role == "chief" else {}
    variables = {**env, **volume, "TF_USE_LEGACY_KERAS": "1"}
    return here.start(f"{role}-{index}", module=path.stem, env=variables)


def is_complete(document: Mapping[str, Any]) -> bool:
    steps = {document["step"], document["totalSteps"], document["lastCheckpoint"]["step"]}
    return document["phase"] == "done" and len(steps) == 1


def test_fit_reports_its_progress_and_all_processes_end(here: Computer) -> None:
    cluster = LoopbackCluster.of(worker=2, ps=1)
    # Nobody ends the servers: there is no operator.
    changes = {"server.serve()": "server.serve(chief_gone_seconds=2)", "64, 20, 200": "64, 5, 200"}
    path = written(here, "fit.py", changes)
    chief = start(here, path, "chief", 0, cluster.env("chief"))
    waiting = chief.progress_until(lambda d: len(d["waitingFor"]) > 0, "it waits")
    assert waiting["waitingFor"] == ["worker-0", "worker-1", "ps-0"]
    servers = [start(here, path, role, i, cluster.env(role, i)) for role, i in SERVERS]

    assert chief.ends() == 0, chief.log
    last = json.loads(chief.last_words)
    assert is_complete(last), last
    assert last["totalSteps"] == 1000
    assert 0 <= last["metrics"]["loss"] < 0.01
    assert last["stepsPerSecond"] > 0
    assert [server.ends() for server in servers] == [0, 0, 0]


def test_a_loop_resumes_and_all_processes_end(here: Computer) -> None:
    cluster = LoopbackCluster.of(worker=2, ps=1)
    path = written(here, "loop.py", {})
    servers = [start(here, path, role, i, cluster.env(role, i)) for role, i in SERVERS]
    chief = start(here, path, "chief", 0, cluster.env("chief"))
    saved = chief.progress_until(lambda d: d["lastCheckpoint"] is not None, "it saves")
    assert (saved["phase"], saved["unreachable"]) == ("training", [])
    assert saved["secondsSinceStep"] is not None
    chief.signal(signal.SIGTERM)
    assert chief.ends(patience=15) == 143, chief.log
    assert chief.last_words == ""

    again = start(here, path, "chief", 0, cluster.env("chief", TFTRAINING_ATTEMPT="1"))
    assert again.ends() == 0, again.log
    last = json.loads(again.last_words)
    assert is_complete(last), last
    assert last["resumedStep"] >= saved["lastCheckpoint"]["step"]
    assert last["attempt"] == 1
    for server in servers:
        server.signal(signal.SIGTERM)
    assert [server.ends(patience=15) for server in servers] == [0, 0, 0]


def test_a_server_of_a_cluster_too_large_for_a_variable_serves_alone(here: Computer) -> None:
    ours = written(here, "loop.py", {})
    plain = here.folder / "plain.py"
    serves = "    tftrainer.server.serve()  # the tutorial: tf.distribute.Server(...).join()\n"
    plain.write_text(ours.read_text().replace(serves, indent(TUTORIAL, "    ")))
    for path in (ours, plain):
        address = f"localhost:{free_port()}"
        task = {"type": "worker", "index": 7}
        config = {"cluster": {"worker": {"7": address}}, "task": task}
        server = start(here, path, "worker", 7, {"TF_CONFIG": json.dumps(config)})
        answers, member = StatusProbe(), Member(Task(Role.WORKER, 7), address)
        until(lambda probe=answers, member=member: probe(member) is None, f"{path} serves")
        server.signal(signal.SIGTERM)
        assert server.ends(patience=15) == (0 if path is ours else -signal.SIGTERM), server.log


def test_the_tutorial_runs_unchanged_in_a_job(tmp_path: Path) -> None:
    if not TFTJ.exists():
        pytest.skip("tftj needs .venv: run `make venv`")
    ours = re.compile(r"^.*tftrainer\.(?:report\([^)]*\)|server\.serve\(\).*)\n", re.MULTILINE)
    text = script("fit.py").replace("import tftrainer\n", "").replace("64, 20, 200", "64, 2, 100")
    server, *reports = ours.findall(text)
    text = text.replace(server, indent(TUTORIAL, "    "))
    for line in reports:
        text = text.replace(line, line.replace(line.strip(), "pass"))
    assert "tftrainer" not in text
    job = EXAMPLE.read_text().replace(indent(script("loop.py"), "    "), indent(text, "    "))
    (tmp_path / "job.yaml").write_text(job)

    done = subprocess.run(
        [TFTJ, "-m", "tftraining.cli", "run", "--local", "job.yaml"],
        cwd=tmp_path,
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "PYTHONPATH": str(ROOT / "operator"),
            "TFTJ_PYTHON": sys.executable,
            "COLUMNS": "200",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout
    assert "Succeeded" in done.stdout
