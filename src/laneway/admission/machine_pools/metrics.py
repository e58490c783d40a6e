"""What the webhook for machine pools counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class PoolMetrics:
    """The metric families of one webhook, in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._unchecked = Counter(
            "laneway_machine_pools_unchecked_total",
            "Writes of machine pools that were allowed unchecked.",
            registry=registry,
        )
        self._known = Gauge(
            "laneway_machine_pools_harvester_known",
            "Whether it is known what a Harvester cluster has; 0 while writes pass unchecked.",
            ["harvester"],
            registry=registry,
        )

    def unchecked(self) -> None:
        """A write passed, and something of it was not judged."""
        self._unchecked.inc()

    def known(self, harvester: str, *, known: bool) -> None:
        """Whether a Harvester cluster is known."""
        self._known.labels(harvester).set(known)

    def forget(self, harvester: str) -> None:
        """There is no such Harvester cluster any more."""
        self._known.remove(harvester)
