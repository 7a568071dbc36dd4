"""Sends a span of each pass, and of the API calls in it, to an OpenTelemetry collector.

Imported only if TFTRAINING_TRACES_ENDPOINT names one: OpenTelemetry is an optional extra. main
starts and flushes it, runtime hands it passes and calls. A call belongs to the pass in whose task
it was made; calls outside of passes, such as listings and the lease, have no span.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tftraining_operator import __version__
from tftraining_operator.controller.kubernetes_api import Call
from tftraining_operator.controller.logs import job_fields
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError
from tftraining_operator.reconcile.store import JobKey

_Object = Mapping[str, Any]
_Pass = Callable[[JobKey], Awaitable[float | None]]

_SERVICE = "tftraining-operator"


class Tracing:
    """The spans of one operator process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("tftraining_operator", __version__)

    def traced(self, handle: _Pass, job: Callable[[JobKey], _Object | None]) -> _Pass:
        """Return `handle` with a span of each pass; `job` returns a job as it is before the pass.

        Its attributes are those of the log's records, and `result` is that of the metric.
        """

        async def observed(key: JobKey) -> float | None:
            with self._tracer.start_as_current_span(
                "reconcile",
                attributes=job_fields(key, job(key)),
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                result = "error"
                try:
                    wake_in = await handle(key)
                    result = "success"
                except Exception as error:
                    if isinstance(error, ApiError):
                        result = "api_error"
                    span.set_status(trace.StatusCode.ERROR, one_line(str(error)))
                    raise
                finally:
                    span.set_attribute("result", result)
            return wake_in

        return observed

    def saw_call(self, call: Call) -> None:
        """Make a span of a call that was just answered, if it belongs to a pass."""
        if not trace.get_current_span().is_recording():
            return
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{call.verb} {call.resource}",
            kind=trace.SpanKind.CLIENT,
            attributes={"verb": call.verb, "resource": call.resource, "code": call.code},
            start_time=end - round(call.seconds * 1e9),
        )
        # As the client sees it; 404 and 409 are answers that the operator counts on.
        if not call.code.startswith(("2", "404", "409")):
            span.set_status(trace.StatusCode.ERROR)
        span.end(end)


@asynccontextmanager
async def tracing(endpoint: str) -> AsyncIterator[Tracing]:
    """Send spans to this URL during the block, and what is left at its end.

    Sampling, headers, certificates and batches are set by OpenTelemetry's own OTEL_* variables.
    """
    resource = Resource.create(
        {
            "service.name": _SERVICE,
            "service.version": __version__,
            "service.instance.id": socket.gethostname(),
        }
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    try:
        yield Tracing(provider)
    finally:
        # In a thread: a collector that hangs is waited for as long as its timeout.
        await asyncio.to_thread(provider.shutdown)
