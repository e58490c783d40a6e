"""What the manager counts, for Prometheus.

The labels say nothing about which replica it was: only the one that leads counts what it does,
and what it has counted of the cluster goes with its lead.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge


class ManagerMetrics:
    """The metric families of one manager, in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leading = Gauge(
            "laneway_manager_leading", "1 while this manager leads.", registry=registry
        )
        self._installations = Gauge(
            "laneway_kubevirts", "KubeVirt objects in the cluster.", registry=registry
        )
        self._permitted = Gauge(
            "laneway_permitted_entries",
            "Laneway's entries in KubeVirt's lists of permitted devices.",
            ["list"],
            registry=registry,
        )
        self._collisions = Gauge(
            "laneway_resource_collisions",
            "Resource names of more than one kind of device.",
            registry=registry,
        )
        self._writes = Counter(
            "laneway_manager_writes_total",
            "Objects written to the API server.",
            ["verb", "kind"],
            registry=registry,
        )
        self._conflicts = Counter(
            "laneway_manager_conflicts_total",
            "Writes refused because another program had changed the object.",
            ["kind"],
            registry=registry,
        )
        self._nodes = Counter(
            "laneway_nodes_cleaned_total",
            "Nodes that are gone and whose objects were removed.",
            registry=registry,
        )
        self._left = Gauge(
            "laneway_cleanup_left",
            "Objects of nodes that are gone and that could not be removed yet.",
            registry=registry,
        )

    def leading(self, leads: bool) -> None:
        """Whether this manager leads from now on."""
        self._leading.set(leads)
        if not leads:
            self._permitted.clear()
            self._collisions.set(0)
            self._left.set(0)

    def installations(self, count: int) -> None:
        """So many KubeVirts there are."""
        self._installations.set(count)

    def permitted(self, entries: Mapping[str, int], collisions: int) -> None:
        """What the lists hold of ours, by list."""
        for name, count in entries.items():
            self._permitted.labels(name).set(count)
        self._collisions.set(collisions)

    def wrote(self, verb: str, kind: str) -> None:
        """One write succeeded."""
        self._writes.labels(verb, kind).inc()

    def conflict(self, kind: str) -> None:
        """One write came too late."""
        self._conflicts.labels(kind).inc()

    def cleaned(self) -> None:
        """What was left of one node is removed."""
        self._nodes.inc()

    def left(self, objects: int) -> None:
        """So many objects of nodes that are gone are still there."""
        self._left.set(objects)
