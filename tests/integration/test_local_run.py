"""`tftj run --local` with real processes: small shell scripts in place of the trainer."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.builders import JobBuilder, a_job
from tests.unit.cli.plans import a_file

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
SERVE = "sleep 600"
"""The script of a worker or ps: it does nothing and does not exit."""

SAVES = (
    "trap 'echo saving; sleep 1; echo saved; exit 143' TERM; echo up; while :; do sleep 0.1; done"
)
"""The script of a chief that trains until it is asked to end, and then saves."""


@dataclass
class Run:
    """One `tftj run --local` in a folder of its own."""

    folder: Path
    popen: subprocess.Popen[str]

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    def shows(self, text: str) -> None:
        self.until(lambda: text in self.out, f"tftj shows {text!r}")

    def log(self, pod: str) -> str:
        path = self.folder / f"mnist-logs/{pod}.log"
        return path.read_text() if path.exists() else ""

    def logs(self, pod: str, text: str) -> None:
        self.until(lambda: text in self.log(pod), f"{pod} logs {text!r}")

    def until(self, wanted: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not wanted():
            assert time.monotonic() < end, f"timed out: {what}\n{self.out}"
            time.sleep(0.05)

    def ends(self) -> int:
        try:
            return self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"tftj does not exit\n{self.out}") from None

    def left(self) -> list[str]:
        """Processes of this run that are alive; each carries its folder in its environment."""
        return sorted(
            f"{pid} {(process / 'cmdline').read_bytes()!r}"
            for process in Path("/proc").iterdir()
            if (pid := process.name).isdigit() and _is_of(process, self.folder)
        )

    def leaves_nothing(self) -> None:
        self.until(lambda: not self.left(), "no process is left")
        assert not list(scratch(self.folder).iterdir())


def _is_of(process: Path, folder: Path) -> bool:
    mark = f"RUN_FOLDER={folder}".encode()
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def scratch(folder: Path) -> Path:
    """Return where tftj makes its own folder, beside that of a run and without a space."""
    return folder.with_name(f"{folder.name.replace(' ', '-')}-tmp")


def start(folder: Path, job: JobBuilder, *options: str, **more: Any) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    scratch(folder).mkdir(exist_ok=True)
    (folder / "job.yaml").write_text(a_file(job, *more.pop("others", ())))
    with (folder / "out").open("a") as out:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tftraining.cli"),
                *("run", "--local", "job.yaml", *options),
            ],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT / "operator"),
                "RUN_FOLDER": str(folder),
                "COLUMNS": "200",
                "TMPDIR": str(scratch(folder)),
            },
            text=True,
            **(streams | more),
        )


@contextmanager
def running(folder: Path, job: JobBuilder, *options: str, **more: Any) -> Iterator[Run]:
    popen = start(folder, job, *options, **more)
    run = Run(folder, popen)
    try:
        yield run
        run.leaves_nothing()
    finally:
        popen.kill()
        popen.wait()


def shell(script: str, **spec: Any) -> JobBuilder:
    """A job with one worker and one ps that serve, and a chief that runs a script."""
    # They listen on no port; a probe of the user makes them ready.
    probe = {"exec": {"command": ["true"]}}
    job = a_job().with_container(command=["sh", "-c", SERVE], args=None, readinessProbe=probe)
    container = {"name": "tensorflow", "command": ["sh", "-c", script]}
    return job.with_role("chief", template={"spec": {"containers": [container]}}).with_spec(**spec)


def claim() -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": "mnist"}}


def test_all_processes_end_when_the_chief_succeeds(tmp_path: Path) -> None:
    with running(tmp_path, shell("sleep 1")) as run:
        assert run.ends() == 0
        assert "Succeeded" in run.out
        assert run.left() == []


def test_a_failed_attempt_is_followed_by_another(tmp_path: Path) -> None:
    script = 'echo attempt $TFTRAINING_ATTEMPT; [ "$TFTRAINING_ATTEMPT" = 1 ] || exit 75'
    with running(tmp_path, shell(script)) as run:
        assert run.ends() == 0
    assert run.log("mnist-chief-0").split("\n") == ["attempt 0", "attempt 1", ""]
    assert "mnist-chief-0 exited with 75: attempt 0; restart 1 of 3" in run.out


def test_attempts_are_counted_against_the_limit(tmp_path: Path) -> None:
    with running(tmp_path, shell("echo no luck >&2; exit 1").with_policy(backoffLimit=1)) as run:
        assert run.ends() == 1
    assert "Failed (BackoffLimitExceeded): mnist-chief-0 exited with 1: no luck" in run.out
    assert "full log of mnist-chief-0: ./mnist-logs/mnist-chief-0.log" in run.out
    assert run.log("mnist-chief-0") == "no luck\nno luck\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("exit 64", "exited with 64", id="bad configuration"),
        pytest.param("exec /no/such/program", "exited with 127", id="no such program"),
    ],
)
def test_a_permanent_failure_ends_the_job(script: str, message: str, tmp_path: Path) -> None:
    with running(tmp_path, shell(script)) as run:
        assert run.ends() == 1
    assert "Failed (PermanentFailure)" in run.out
    assert message in run.out


def test_a_missing_command_is_named(tmp_path: Path) -> None:
    job = a_job().with_container(command=["/no/such/program"], args=None)
    with running(tmp_path, job) as run:
        assert run.ends() == 1
    assert "cannot start /no/such/program: No such file or directory" in run.out


def test_a_killed_worker_is_restarted_while_the_chief_continues(tmp_path: Path) -> None:
    job = shell("while [ ! -e done ]; do sleep 0.1; done; echo once")
    job.with_role(
        "worker",
        template={
            "spec": {
                "containers": [
                    {"name": "tensorflow", "command": ["sh", "-c", f"echo pid $$$$; exec {SERVE}"]}
                ]
            }
        },
    )
    with running(tmp_path, job) as run:
        run.logs("mnist-worker-0", "pid")
        os.kill(int(run.log("mnist-worker-0").split()[1]), signal.SIGKILL)
        run.until(lambda: run.log("mnist-worker-0").count("pid") == 2, "the worker is restarted")
        (tmp_path / "done").touch()
        assert run.ends() == 0
    assert "mnist-worker-0: ExitCode (exit code 137): killed (SIGKILL)" in run.out
    assert run.log("mnist-chief-0") == "once\n"


def test_the_job_ends_after_the_evaluators_grace_period(tmp_path: Path) -> None:
    job = shell("exit 0", checkpoint=claim()).with_role("evaluator", replicas=1)
    with running(tmp_path, job.with_policy(evaluatorGraceSeconds=2)) as run:
        assert run.ends() == 0
    assert "the evaluator did not finish within 2 s after the chief" in run.out


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_lets_the_chief_save_first(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    with running(tmp_path, shell(SAVES)) as run:
        run.logs("mnist-chief-0", "up")
        run.popen.send_signal(number)
        run.logs("mnist-chief-0", "saving")
        assert len([each for each in run.left() if "sleep 600" in each]) > 0, (
            "servers run while it saves"
        )
        assert run.ends() == code
        assert run.left() == []
    assert run.log("mnist-chief-0").endswith("saved\n")
    assert "Stopped before the training was complete" in run.out


def test_the_chief_saves_although_nobody_reads_the_output(tmp_path: Path) -> None:
    """As with `| tee log`, which Ctrl-C ends as well."""
    ours, theirs = os.pipe()
    with running(tmp_path, shell(SAVES), stdout=theirs) as run:
        os.close(theirs)
        run.logs("mnist-chief-0", "up")
        os.close(ours)
        run.popen.send_signal(signal.SIGINT)
        assert run.ends() == 130, run.out
    assert run.log("mnist-chief-0").endswith("saved\n")


@pytest.fixture
def _hangup() -> Iterator[None]:
    """Let what a test starts get the signal, under nohup too: handlers are not inherited."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_hangup")
def test_the_chief_saves_when_the_terminal_is_closed(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs}

    def trains() -> bool:
        with contextlib.suppress(BlockingIOError):
            os.read(ours, 65536)
        return "up" in run.log("mnist-chief-0")

    with running(tmp_path, shell(SAVES), **terminal) as run:
        os.close(theirs)
        run.until(trains, "the chief trains")
        os.close(ours)
        # From the kernel, and from bash.
        run.popen.send_signal(signal.SIGHUP)
        run.logs("mnist-chief-0", "saving")
        run.popen.send_signal(signal.SIGHUP)
        assert run.ends() == 143
    assert run.log("mnist-chief-0").endswith("saved\n")


def test_a_second_signal_ends_all_processes_at_once(tmp_path: Path) -> None:
    with running(tmp_path, shell("trap '' TERM; echo up; while :; do sleep 0.1; done")) as run:
        run.logs("mnist-chief-0", "up")
        run.popen.send_signal(signal.SIGINT)
        run.shows("stopping")
        assert run.popen.poll() is None
        run.popen.send_signal(signal.SIGINT)
        assert run.ends() == 130
        assert run.left() == []


def test_nothing_outlives_a_killed_tftj(tmp_path: Path) -> None:
    with running(tmp_path, shell(f"echo up; exec {SERVE}")) as run:
        run.logs("mnist-chief-0", "up")
        assert run.left()
        run.popen.kill()
        run.popen.wait()
        run.leaves_nothing()


def test_children_of_a_task_end_with_it(tmp_path: Path) -> None:
    with running(tmp_path, shell(f"{SERVE} & echo child; exit 0")) as run:
        assert run.ends() == 0
        assert run.left() == []


def test_files_variables_and_folders_reach_the_task(tmp_path: Path) -> None:
    script = "cat /code/greeting; echo $NAME $TFTRAINING_CHECKPOINT_DIR $(RUN); ls /data"
    job = shell("exit 1", checkpoint=claim())
    template = job.raw["spec"]["chief"]["template"]["spec"]
    template["containers"][0] |= {
        "command": ["sh", "-c", script],
        "env": [
            {"name": "RUN", "value": "7"},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "volumeMounts": [
            {"name": "code", "mountPath": "/code"},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    template["volumes"] = [
        {"name": "code", "configMap": {"name": "code"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    code = {"kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"greeting": "hello\n"}}
    data = tmp_path / "images"
    data.mkdir()
    (data / "one.png").touch()
    with running(tmp_path, job, "--volume=data=images", others=[code]) as run:
        assert run.ends() == 0
    checkpoints = tmp_path / "mnist-checkpoints"
    assert run.log("mnist-chief-0") == f"hello\nmnist-chief-0 {checkpoints} 7\none.png\n"
    assert checkpoints.is_dir()


def test_volumes_are_as_in_a_cluster(tmp_path: Path) -> None:
    """A script may be executed, a subPath exists, and no path has a space that a shell splits."""
    folder = tmp_path / "my project"
    job = shell("exit 1", checkpoint=claim())
    template = job.raw["spec"]["chief"]["template"]["spec"]
    template["containers"][0] |= {
        "command": ["/scripts/run.sh"],
        "args": ["/cache/a", "sh -c 'echo saved >/checkpoints/out'"],
        "volumeMounts": [
            {"name": "scripts", "mountPath": "/scripts"},
            {"name": "cache", "mountPath": "/cache", "subPath": "runs"},
        ],
    }
    template["volumes"] = [
        {"name": "scripts", "configMap": {"name": "scripts", "defaultMode": 0o755}},
        {"name": "cache", "emptyDir": {}},
    ]
    script = '#!/bin/sh\nset -e\necho cached >"$1"\ncat "$1"\neval "$2"\n'
    others = [{"kind": "ConfigMap", "metadata": {"name": "scripts"}, "data": {"run.sh": script}}]
    with running(folder, job, others=others) as run:
        assert run.ends() == 0, run.out
    assert run.log("mnist-chief-0") == "cached\n"
    assert (folder / "mnist-checkpoints/out").read_text() == "saved\n"


def test_a_checkpoint_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist-checkpoints").mkdir()
    (tmp_path / "mnist-checkpoints/attempt.json").write_text('{"job": "other", "uid": "u"}')
    with running(tmp_path, shell("exit 0", checkpoint=claim())) as run:
        assert run.ends() == 2
    assert "mnist-checkpoints belongs to job other" in run.out


@pytest.mark.parametrize(
    ("option", "message"),
    [
        pytest.param("--log-dir=other", "saves in ./mnist-checkpoints", id="checkpoints"),
        pytest.param("--checkpoint-dir=other", "writes to ./mnist-logs", id="logs"),
    ],
)
def test_a_second_run_in_the_same_folder_is_refused(
    option: str, message: str, tmp_path: Path
) -> None:
    job = shell(SAVES, checkpoint=claim())
    with running(tmp_path, job) as run:
        run.logs("mnist-chief-0", "up")
        second = start(tmp_path, job, option)
        try:
            assert second.wait(PATIENCE) == 2, run.out
        finally:
            second.kill()
        assert f"error: another local run {message}" in run.out
        run.popen.send_signal(signal.SIGINT)
        assert run.ends() == 130
    assert run.log("mnist-chief-0") == "up\nsaving\nsaved\n"


def test_jobs_may_share_a_folder_for_their_logs(tmp_path: Path) -> None:
    with running(tmp_path / "a", shell("exit 0"), "--log-dir=../logs") as one:
        other = shell("exit 0")
        other.raw["metadata"]["name"] = "other"
        with running(tmp_path / "b", other, "--log-dir=../logs") as another:
            assert (one.ends(), another.ends()) == (0, 0), one.out + another.out


def test_names_of_the_cluster_become_loopback_addresses(tmp_path: Path) -> None:
    script = "echo $TF_CONFIG | grep -c 127.0.0.1 && echo $TF_CONFIG | grep -c svc; exit 0"
    with running(tmp_path, shell(script)) as run:
        assert run.ends() == 0
    assert run.log("mnist-chief-0") == "1\n0\n"


def test_logs_shows_the_output_of_all_processes_by_role(tmp_path: Path) -> None:
    with running(tmp_path, shell("echo hello; sleep 1"), "--logs") as run:
        assert run.ends() == 0
    assert "chief-0      hello" in run.out


def test_a_variable_may_refer_to_the_uid_of_its_pod(tmp_path: Path) -> None:
    job = shell("exit 1")
    uid = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    job.raw["spec"]["chief"]["template"]["spec"]["containers"][0] |= {
        "command": ["sh", "-c", "echo uid $POD_UID"],
        "env": [uid],
    }
    with running(tmp_path, job) as run:
        assert run.ends() == 0, run.out
    assert re.fullmatch(r"uid local-[0-9a-f]{16}-\d+\n", run.log("mnist-chief-0"))


def test_a_job_of_another_controller_is_refused(tmp_path: Path) -> None:
    job = shell("exit 0").with_policy(managedBy="example.com/other")
    with running(tmp_path, job) as run:
        assert run.ends() == 2
    assert "spec.runPolicy.managedBy: this operator ignores jobs with the value" in run.out


def test_two_runs_at_once_do_not_interfere(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a", shell("sleep 1")) as one,
        running(tmp_path / "b", shell("sleep 1")) as other,
    ):
        assert (one.ends(), other.ends()) == (0, 0)


def test_what_only_a_cluster_has_is_ignored_and_named(tmp_path: Path) -> None:
    parts = {"managedBy": "kueue.x-k8s.io/multikueue", "disruption": {"budget": "Essential"}}
    with running(tmp_path, shell("echo trained", **parts)) as run:
        assert run.ends() == 0
    assert "ignored     spec.disruption; spec.managedBy" in run.out


@pytest.mark.parametrize("option", ["--log-dir", "--checkpoint-dir"])
def test_a_folder_that_cannot_be_made_is_a_wrong_option(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with running(tmp_path, shell("exit 0", checkpoint=claim()), f"{option}=file/folder") as run:
        assert run.ends() == 2
    assert f"cannot create the folder {tmp_path}/file/folder: Not a directory" in run.out
