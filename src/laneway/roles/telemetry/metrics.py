"""What did not reach its receiver, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


def unsent_spans(registry: CollectorRegistry) -> Counter:
    """Counts spans."""
    return Counter(
        "laneway_spans_unsent_total",
        "Spans that the endpoint for traces did not get.",
        [],
        registry=registry,
    )


def unsent_records(registry: CollectorRegistry) -> Counter:
    """Counts lines of the audit record."""
    return Counter(
        "laneway_audit_records_unsent_total",
        "Lines of the audit record that did not reach where --audit sends them. The file "
        "audit.jsonl of the node has them.",
        [],
        registry=registry,
    )
