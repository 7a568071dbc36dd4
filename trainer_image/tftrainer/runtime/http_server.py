"""Serves /progress, /metrics and /healthz in background threads; started by __main__."""

import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tftrainer.errors import TrainerError
from tftrainer.runtime.progress import Phase, Progress, Snapshot

_LOG = logging.getLogger(__name__)


class _SnapshotCollector(Collector):
    """Turns the current snapshot into Prometheus metrics, so that no value is stored twice."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        now, moment = self._progress.snapshot, time.monotonic()
        plain = {
            "step": ("Steps completed.", now.step),
            "total_steps": ("Steps after which training is complete.", now.total_steps),
            "steps_per_second": ("Recent steps per second.", now.steps_per_second),
            "examples_per_second": (
                "Recent examples per second of all workers.",
                now.speed(moment),
            ),
            "queue_depth": ("Scheduled functions that no worker has started.", now.queue_depth),
            "checkpoint_step": (
                "Step of the newest checkpoint.",
                now.last_checkpoint.step if now.last_checkpoint else None,
            ),
            "waiting_for_tasks": (
                "Tasks that the chief is waiting for before it trains.",
                len(now.waiting_for),
            ),
            "unreachable_tasks": ("Tasks that do not answer now.", len(now.unreachable)),
            "attempt": ("Attempt of the job that this pod belongs to.", now.attempt),
        }
        for name, (meaning, value) in plain.items():
            if value is not None:
                yield GaugeMetricFamily(f"tftraining_{name}", meaning, value=value)
        phase = GaugeMetricFamily(
            "tftraining_phase", "1 for the current phase, 0 for the others.", labels=["phase"]
        )
        for each in Phase:
            phase.add_metric([str(each)], float(each is now.phase))
        yield phase
        metric = GaugeMetricFamily(
            "tftraining_metric", "Newest value of a metric that the model reports.", labels=["name"]
        )
        for name, number in now.metrics.items():
            metric.add_metric([name], number)
        yield metric
        yield from _work(now, moment)


def _work(now: Snapshot, moment: float) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "tftraining_examples",
        "Examples that the workers have processed since this process started; repeated steps count"
        " again.",
        value=now.examples,
    )
    # No counter: a restart goes back to what the checkpoint's weights have seen.
    yield GaugeMetricFamily(
        "tftraining_repeated_examples",
        "Examples trained on once more because a worker was lost that had them in hand.",
        value=now.repeated_examples,
    )
    speed = GaugeMetricFamily(
        "tftraining_worker_examples_per_second",
        "Recent examples per second of a worker.",
        labels=["task"],
    )
    wait = GaugeMetricFamily(
        "tftraining_worker_input_wait_ratio",
        "Fraction of its time that a worker waits for the next batch, 0 to 1.",
        labels=["task"],
    )
    for each in now.rates(moment):
        speed.add_metric([each.task], each.examples_per_second)
        if each.input_wait is not None:
            wait.add_metric([each.task], each.input_wait)
    yield speed
    yield wait


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A container that was restarted in place finds its port in TIME_WAIT.
    allow_reuse_address = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            # One socket for both families: clusters exist with either alone.
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(
        self,
        request: socket.socket | tuple[bytes, socket.socket],
        client_address: object,
    ) -> None:
        # The client has given up: while TensorFlow is imported an answer may take seconds.
        if isinstance(sys.exception(), ConnectionError):
            _LOG.debug("%s disconnected before it was answered", client_address)
        else:
            super().handle_error(request, client_address)


def registry(progress: Progress) -> CollectorRegistry:
    """Return what /metrics serves."""
    found = CollectorRegistry()
    found.register(_SnapshotCollector(progress))
    return found


def serve(port: int, progress: Progress, is_alive: Callable[[], bool]) -> None:
    """Serve on every address of this pod until the process ends."""
    served = registry(progress)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/progress":
                    body = json.dumps(progress.document()).encode()
                    self._reply(HTTPStatus.OK, "application/json", body)
                case "/metrics":
                    self._reply(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(served))
                case "/healthz" if is_alive():
                    self._reply(HTTPStatus.OK, "text/plain", b"ok\n")
                case "/healthz":
                    status = HTTPStatus.SERVICE_UNAVAILABLE
                    self._reply(status, "text/plain", b"the main thread is not responding\n")
                case _:
                    known = b"/progress /metrics /healthz\n"
                    self._reply(HTTPStatus.NOT_FOUND, "text/plain", known)

        def _reply(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- base class
            _LOG.debug(format, *args)

    _Server.address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        server = _Server(("", port), Handler)
    except OSError as error:
        raise TrainerError(
            f"cannot serve progress on port {port} ({error.strerror}): another process uses it. "
            "Set TFTRAINING_PROGRESS_PORT to a free port."
        ) from error
    Thread(target=server.serve_forever, name="progress", daemon=True).start()
