"""A receiver of OpenTelemetry traces on loopback: OTLP over HTTP, decoded by its own protobuf."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = str | int
Attributes = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Span:
    """One span as it came over the wire."""

    name: str
    trace: bytes
    id: bytes
    parent: bytes
    """b"" for a span without one."""
    kind: int
    failed: bool
    message: str
    seconds: float
    attributes: Attributes


@dataclass(slots=True)
class Receiver:
    """What was received."""

    port: int = 0
    path: str = "/v1/traces"
    spans: list[Span] = field(default_factory=list)
    resource: Attributes = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def children(self, of: Span) -> list[Span]:
        return [span for span in self.spans if (span.trace, span.parent) == (of.trace, of.id)]

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans.extend(map(_span, scope.spans))


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive for the time of the block."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            good = self.path == found.path
            good = good and self.headers["Content-Type"] == "application/x-protobuf"
            if good:
                found.take(body)
            self.send_response(200 if good else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _span(span: Any) -> Span:
    return Span(
        name=span.name,
        trace=span.trace_id,
        id=span.span_id,
        parent=span.parent_span_id,
        kind=span.kind,
        failed=span.status.code == span.status.STATUS_CODE_ERROR,
        message=span.status.message,
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        attributes=_attributes(span.attributes),
    )


def _attributes(pairs: Any) -> Attributes:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
