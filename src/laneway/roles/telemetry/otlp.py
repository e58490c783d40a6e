"""Spans and the audit record as OTLP over HTTP, by the libraries of OpenTelemetry.

Only this module imports them, and only where something is to be sent. Headers, certificates and the
timeout are taken from the standard variables (`OTEL_EXPORTER_OTLP_HEADERS`, …) by the exporters,
and more attributes of the process from `OTEL_RESOURCE_ATTRIBUTES`. Exporters log each failure and
return no reason, so what they log is caught here and told as the reason, once (`outbox`).
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import msgspec

from laneway.core.tracing import Span, SpanId
from laneway.host.plans.audit import Entry
from laneway.roles.telemetry.errors import SendError, TelemetryError
from laneway.roles.telemetry.outbox import Deliver

try:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
except ImportError as missing:
    raise TelemetryError(
        f"traces and audit records cannot be sent over OTLP: Python has no module {missing.name}; "
        "install it: pip install 'laneway[otel]'"
    ) from missing

TIMEOUT_SECONDS = 10.0
_FAILED = ("failed", "left over")


@contextlib.contextmanager
def span_sender(endpoint: str, component: str, node: str) -> Iterator[Deliver[Span]]:
    """Sends spans to the receiver below a base URL. Raises TelemetryError."""
    url = f"{_checked(endpoint)}/v1/traces"
    with _reasons("opentelemetry.exporter.otlp.proto.http.trace_exporter") as reasons:
        exporter = OTLPSpanExporter(url, timeout=TIMEOUT_SECONDS)
        resource, scope = _resource(component, node), _scope()

        def deliver(spans: Sequence[Span]) -> None:
            result = exporter.export([_readable(one, resource, scope) for one in spans])
            said = reasons.taken()
            if result is not SpanExportResult.SUCCESS:
                raise SendError(said)

        try:
            yield deliver
        finally:
            exporter.shutdown()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def audit_sender(endpoint: str, component: str, node: str) -> Iterator[Deliver[Entry]]:
    """Sends lines of the audit record to the receiver below a base URL. Raises TelemetryError."""
    url = f"{_checked(endpoint)}/v1/logs"
    with _reasons("opentelemetry.exporter.otlp.proto.http._log_exporter") as reasons:
        exporter = OTLPLogExporter(url, timeout=TIMEOUT_SECONDS)
        resource, scope = _resource(component, node), _scope()

        def deliver(entries: Sequence[Entry]) -> None:
            records = [ReadableLogRecord(_record(one), resource, scope) for one in entries]
            result, said = exporter.export(records), reasons.taken()
            if result is not LogRecordExportResult.SUCCESS:
                raise SendError(said)

        try:
            yield deliver
        finally:
            exporter.shutdown()  # type: ignore[no-untyped-call]


def _checked(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise TelemetryError(
            f"{endpoint[:200]!r} is not the URL of a receiver of OTLP over HTTP; such a URL looks "
            "like http://collector.monitoring:4318"
        )
    return endpoint.rstrip("/")


def _resource(component: str, node: str) -> Resource:
    attributes = {"service.name": component, "service.version": version("laneway")}
    if node:
        attributes["k8s.node.name"] = node
    return Resource.create(attributes)


def _scope() -> InstrumentationScope:
    return InstrumentationScope("laneway", version("laneway"))


def _context(span: SpanId) -> SpanContext:
    return SpanContext(span.trace, span.span, is_remote=False, trace_flags=TraceFlags(1))


def _readable(span: Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        context=_context(span.id),
        parent=_context(SpanId(span.id.trace, span.parent)) if span.parent else None,
        resource=resource,
        attributes=dict(span.attributes),
        links=[Link(_context(one)) for one in span.links],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.began,
        end_time=span.ended,
        instrumentation_scope=scope,
    )


def _record(entry: Entry) -> LogRecord:
    """The line as it is, and what it is found by as attributes."""
    fields = {
        "plan": entry.plan,
        "actor": entry.actor,
        "outcome": entry.outcome,
        "object": entry.object,
        "device": entry.device,
    }
    attributes: dict[str, Any] = {f"laneway.{key}": text for key, text in fields.items() if text}
    moment = datetime.datetime.fromisoformat(entry.time).timestamp()
    is_failure = entry.outcome in _FAILED
    return LogRecord(
        timestamp=round(moment * 1e6) * 1000,
        severity_text="WARN" if is_failure else "INFO",
        severity_number=SeverityNumber.WARN if is_failure else SeverityNumber.INFO,
        body=msgspec.json.encode(entry).decode(),
        attributes=attributes,
        event_name="laneway.audit",
    )


class _Reasons(logging.Handler):
    """Keeps what an exporter says first about a batch; what follows says that it gives up."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._first = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._first = self._first or record.getMessage()

    def taken(self) -> str:
        """What was said since this was called last."""
        said, self._first = self._first or "the exporter gave no reason", ""
        return said.rstrip(".")


@contextlib.contextmanager
def _reasons(name: str) -> Iterator[_Reasons]:
    """What a logger says in the block, which goes nowhere else."""
    logger, handler = logging.getLogger(name), _Reasons()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
