"""The ledger as numbers, for Prometheus.

The numbers are read from the ledger when they are scraped. A stock that was once counted stays,
with nothing in it: a number that goes away looks like one that is not collected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from laneway.core.ledger.facts import Phase
from laneway.core.ledger.ledger import Counts, Ledger, State


class LedgerCollector(Collector):
    """Counts devices by state, and what is short."""

    def __init__(
        self, ledger: Callable[[], Ledger | None], seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`ledger` gives None for as long as this process has nothing to say."""
        self._ledger = ledger
        self._seconds = seconds
        self._stocks: set[tuple[str, str]] = set()
        self._short: set[tuple[str, str]] = set()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing that another collector could have."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        ledger = self._ledger()
        if ledger is None:
            return
        yield self._devices(ledger)
        yield self._shortages(ledger)
        yield GaugeMetricFamily(
            "laneway_ledger_build_seconds",
            "Duration of the last computation of the ledger.",
            self._seconds(),
        )

    def _devices(self, ledger: Ledger) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "laneway_ledger_devices",
            "Devices that VMs can request, by node, resource and state.",
            labels=["node", "resource", "state"],
        )
        self._stocks.update(ledger.stocks)
        for node, resource in sorted(self._stocks):
            stock = ledger.stocks.get((node, resource))
            counts = stock.counts if stock else Counts()
            for state in State:
                family.add_metric([node, resource, state], getattr(counts, state))
        return family

    def _shortages(self, ledger: Ledger) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "laneway_ledger_short",
            "Requested devices that are not free, by resource and by the phase of the VM.",
            labels=["resource", "phase"],
        )
        short: Counter[tuple[str, str]] = Counter()
        for shortage in ledger.shortages:
            for resource, count in shortage.missing.items():
                short[resource, shortage.phase] += count
        self._short.update(short)
        self._short.update(
            (resource, phase)
            for resource in ledger.homes
            for phase in (Phase.PENDING, Phase.STOPPED)
        )
        for resource, phase in sorted(self._short):
            family.add_metric([resource, phase], short[resource, phase])
        return family
