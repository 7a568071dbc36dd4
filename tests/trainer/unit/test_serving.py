"""/progress, /metrics, /healthz over a real socket, and the termination log."""

import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from harness import until
from tftrainer.config.cluster import Role
from tftrainer.errors import TrainerError
from tftrainer.runtime import http_server, termination
from tftrainer.runtime.progress import Phase, Progress, Snapshot
from tftrainer.runtime.throughput import Throughput, Work, WorkerRate

from tools.ports import free_port


@pytest.fixture
def port() -> int:
    return free_port()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_newest_snapshot_is_served(port: int) -> None:
    progress = Progress(Snapshot(role=Role.CHIEF))
    alive = [True]
    http_server.serve(port, progress, lambda: alive[0])
    workers = (WorkerRate("worker-0", 640.0, 0.25), WorkerRate("worker-1", 0.0, None))
    progress.update(phase=Phase.TRAINING, step=7, metrics={"loss": 0.5}, workers=workers)
    progress.update(examples=4480, examples_per_second=640.0, queue_depth=2)

    assert json.loads(get(port, "/progress")[1]) == progress.document()
    metrics = get(port, "/metrics")[1]
    assert "tftraining_step 7.0" in metrics
    assert 'tftraining_metric{name="loss"} 0.5' in metrics
    assert 'tftraining_phase{phase="training"} 1.0' in metrics
    assert "tftraining_examples_total 4480.0" in metrics
    assert "tftraining_examples_per_second 640.0" in metrics
    assert 'tftraining_worker_examples_per_second{task="worker-0"} 640.0' in metrics
    assert 'tftraining_worker_input_wait_ratio{task="worker-0"} 0.25' in metrics
    assert 'tftraining_worker_input_wait_ratio{task="worker-1"}' not in metrics
    assert "tftraining_queue_depth 2.0" in metrics
    assert get(port, "/healthz")[0] == 200
    alive[0] = False
    assert get(port, "/healthz")[0] == 503
    assert get(port, "/else")[0] == 404


def test_workers_that_nobody_looks_at_for_long_have_no_metric_to_scale_by(port: int) -> None:
    throughput, began = Throughput(["worker-0"]), time.monotonic() - 60
    for second in (1, 2, 3):
        throughput.add(began + second, [Work(10 * second, 0.0, second)])
    progress = Progress(Snapshot(role=Role.CHIEF, phase=Phase.TRAINING))
    http_server.serve(port, progress, lambda: True)
    progress.update(examples_per_second=10.0, workers=throughput.workers(began + 3))

    metrics = get(port, "/metrics")[1]
    assert "tftraining_examples_per_second 0.0" in metrics
    assert 'tftraining_worker_examples_per_second{task="worker-0"} 0.0' in metrics
    assert "tftraining_worker_input_wait_ratio{" not in metrics


def test_one_who_asks_and_goes_leaves_no_traceback(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    http_server.serve(port, Progress(Snapshot(role=Role.CHIEF)), lambda: True)
    asking = socket.create_connection(("127.0.0.1", port))
    asking.sendall(b"GET /progress HTTP/1.1\r\n")
    until(_answering, "a thread answers")
    # Closed without a good-bye, as by a client whose time is up.
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    asking.close()
    until(lambda: not _answering(), "the thread is done")

    assert capfd.readouterr().err == ""
    assert get(port, "/healthz")[0] == 200


def _answering() -> bool:
    return any("process_request_thread" in thread.name for thread in threading.enumerate())


def test_a_port_that_is_taken_is_named(port: int) -> None:
    progress = Progress(Snapshot(role=Role.CHIEF))
    http_server.serve(port, progress, lambda: True)

    with pytest.raises(TrainerError, match=str(port)):
        http_server.serve(port, progress, lambda: True)


def test_the_termination_log_is_cut_where_kubernetes_would(tmp_path: Path) -> None:
    termination.write_cause(tmp_path / "log", "x" * 9000)

    assert len((tmp_path / "log").read_text()) == 4096


def test_a_termination_log_that_cannot_be_written_is_no_matter() -> None:
    termination.write_cause(Path("/nowhere/at/all"), "why")
    termination.write_document(Path("/dev/not-there"), {})

    assert not Path("/dev/not-there").exists()
