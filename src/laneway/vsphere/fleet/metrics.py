"""What there is to count of vCenters and of what is reserved, for Prometheus.

What can be read at any time is counted when the metrics are scraped.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from laneway.api.vsphere import VSphereReservation

Ages = Callable[[], Mapping[str, float | None]]
"""For how many seconds each vCenter has reported nothing; None: it is not followed now."""

Reservations = Callable[[], Iterable[VSphereReservation]]


class FleetMetrics:
    """The metric families of one manager, in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._refused = Counter(
            "laneway_vsphere_refused_total",
            "Refused device requests of Machines, by reason.",
            ["reason"],
            registry=registry,
        )
        self._writes = Counter(
            "laneway_vsphere_writes_total",
            "VSphereReservations and VSphereHosts written to the API server.",
            ["verb", "kind"],
            registry=registry,
        )

    def wrote(self, verb: str, kind: str = "VSphereReservation") -> None:
        """One write succeeded."""
        self._writes.labels(verb, kind).inc()

    def refused(self, reason: str) -> None:
        """A machine cannot have its devices, and its status says so."""
        self._refused.labels(reason).inc()

    def watch(self, ages: Ages, reservations: Reservations) -> None:
        """From now on count these; only a manager that leads has any."""
        self._registry.register(_FleetCollector(ages, reservations))


class _FleetCollector(Collector):
    def __init__(self, ages: Ages, reservations: Reservations) -> None:
        self._ages = ages
        self._reservations = reservations

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing that another collector could have."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        connected = GaugeMetricFamily(
            "laneway_vsphere_connected",
            "1 while Laneway follows the inventory of a vCenter.",
            labels=["vcenter"],
        )
        age = GaugeMetricFamily(
            "laneway_vsphere_inventory_age_seconds",
            "Seconds since the last inventory update of a followed vCenter.",
            labels=["vcenter"],
        )
        for vcenter, seconds in self._ages().items():
            connected.add_metric([vcenter], seconds is not None)
            if seconds is not None:
                age.add_metric([vcenter], seconds)
        reserved = GaugeMetricFamily(
            "laneway_vsphere_reservations",
            "Reservations of Machines by vCenter, with and without all devices.",
            labels=["vcenter", "ready"],
        )
        tally = Tally(
            (one.spec.vcenter, any(c.status == "True" for c in one.status.conditions))
            for one in self._reservations()
        )
        for (vcenter, ready), count in sorted(tally.items()):
            reserved.add_metric([vcenter, str(ready).lower()], count)
        yield from (connected, age, reserved)
