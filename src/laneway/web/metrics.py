"""What the interface counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class UiMetrics:
    """The metric families of one interface, in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "laneway_ui_page_seconds",
            "Duration of drawing a page.",
            ["page"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._tabs = Gauge("laneway_ui_open_pages", "Pages open in browsers.", registry=registry)
        self._sessions = Gauge(
            "laneway_ui_sessions", "Sessions of users who are signed in.", registry=registry
        )
        self._expiry = Gauge(
            "laneway_ui_certificate_expiry_timestamp_seconds",
            "When the served certificate expires; 0 without one.",
            registry=registry,
        )
        self._bad_files = Counter(
            "laneway_ui_certificate_failures_total",
            "Certificates or keys that could not be used.",
            registry=registry,
        )

    def counts(self, tabs: Callable[[], float], sessions: Callable[[], float]) -> None:
        """Where the numbers of open pages and sessions come from."""
        self._tabs.set_function(tabs)
        self._sessions.set_function(sessions)

    def drawn(self, page: str, seconds: float) -> None:
        """A page was drawn; `page` is its pattern."""
        self._seconds.labels(page).observe(seconds)

    def certificate(self, expiry: float) -> None:
        """A certificate is served that expires then, as a POSIX time."""
        self._expiry.set(expiry)

    def bad_files(self) -> None:
        """New files could not be used."""
        self._bad_files.inc()
