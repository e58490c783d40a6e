"""What the webhook counts, for Prometheus.

Labels come from what Laneway knows, never from what is sent, so that no client can make up series.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Outcome(StrEnum):
    """How a review ended."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    UNREADABLE = "unreadable"
    """The object is none of its kind."""
    MALFORMED = "malformed"
    """What came is no review."""
    NOT_READY = "not ready"
    """The cluster is not known yet."""
    FAILED = "failed"
    """A defect of Laneway; its log has the traceback."""


class AdmissionMetrics:
    """The metric families of one webhook, in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "laneway_admission_reviews_total",
            "Reviews answered.",
            ["webhook", "kind", "operation", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "laneway_admission_seconds",
            "Duration of reviews.",
            ["webhook"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._refusals = Counter(
            "laneway_admission_refusals_total",
            "Refusals, by reason.",
            ["reason"],
            registry=registry,
        )
        self._warnings = Counter("laneway_admission_warnings_total", "Warnings.", registry=registry)
        self._unasked = Counter(
            "laneway_admission_access_failures_total",
            "Questions about rights that the API server did not answer; they count as not granted.",
            registry=registry,
        )
        self._expiry = Gauge(
            "laneway_webhook_certificate_expiry_timestamp_seconds",
            "When the served certificate expires.",
            registry=registry,
        )
        self._bad_files = Counter(
            "laneway_webhook_certificate_failures_total",
            "Certificates or keys that could not be used.",
            registry=registry,
        )

    def reviewed(
        self, webhook: str, kind: str, operation: str, outcome: Outcome, seconds: float
    ) -> None:
        """One review was answered."""
        self._reviews.labels(webhook, kind, operation, str(outcome)).inc()
        self._seconds.labels(webhook).observe(seconds)

    def refused(self, reasons: Iterable[str]) -> None:
        """A write was refused for these reasons."""
        for reason in reasons:
            self._refusals.labels(reason).inc()

    def warned(self, count: int) -> None:
        """So many warnings were given."""
        self._warnings.inc(count)

    def not_asked(self) -> None:
        """A right could not be checked."""
        self._unasked.inc()

    def certificate(self, expiry: float) -> None:
        """The certificate that is served from now on expires then (seconds since 1970)."""
        self._expiry.set(expiry)

    def bad_files(self) -> None:
        """The files hold a pair that cannot be taken."""
        self._bad_files.inc()
