"""What a role sends out about its work: spans, and the audit record.

Off unless asked for: without an endpoint there is no tracer and no thread, and the libraries of
OpenTelemetry are not imported. Nothing here holds up the work or makes it fail (`outbox`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from laneway.core.tracing import Tracer
from laneway.host.plans.audit import Entry, Recorder, unrecorded
from laneway.roles.telemetry.errors import TelemetryError
from laneway.roles.telemetry.metrics import unsent_records, unsent_spans
from laneway.roles.telemetry.outbox import Deliver, Outbox
from laneway.roles.telemetry.sinks import file_sink, stdout_sink

__all__ = ["Telemetry", "TelemetryError", "telemetry"]

STDOUT = "stdout"


class Telemetry(NamedTuple):
    """What takes spans and lines of the audit record; None and no effect where it is off."""

    tracer: Tracer | None = None
    recorded: Recorder = unrecorded


@contextlib.contextmanager
def telemetry(
    component: str,
    registry: CollectorRegistry,
    *,
    endpoint: str = "",
    audit: str = "",
    node: str = "",
) -> Iterator[Telemetry]:
    """Send until the block ends; what is left by then is sent for some seconds more.

    `endpoint`: base URL of an OTLP/HTTP receiver for spans. `audit`: where lines of the audit
    record go in addition to its file: stdout, an absolute path, or the base URL of an OTLP/HTTP
    receiver. Empty is off. Raises TelemetryError.
    """
    with contextlib.ExitStack() as stack:
        tracer: Tracer | None = None
        recorded: Recorder = unrecorded
        if endpoint:
            from laneway.roles.telemetry.otlp import span_sender  # noqa: PLC0415 - an extra

            send = stack.enter_context(span_sender(endpoint, component, node))
            spans = Outbox(send, f"traces to {endpoint}", unsent_spans(registry))
            tracer = stack.enter_context(spans.running()).put
        if audit:
            deliver = stack.enter_context(_audit_sink(audit, component, node))
            lines = Outbox(
                deliver,
                f"the audit record to {audit}",
                unsent_records(registry),
                kept="; audit.jsonl in the agent's state folder has all lines",
            )
            recorded = stack.enter_context(lines.running()).put
        yield Telemetry(tracer, recorded)


@contextlib.contextmanager
def _audit_sink(where: str, component: str, node: str) -> Iterator[Deliver[Entry]]:
    if where == STDOUT:
        yield stdout_sink
    elif where.startswith("/"):
        yield file_sink(where)
    else:
        from laneway.roles.telemetry.otlp import audit_sender  # noqa: PLC0415 - an extra

        with audit_sender(where, component, node) as deliver:
            yield deliver
