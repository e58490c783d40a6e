"""Counts allocations and their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from laneway.controllers.device_plugin.status import DeviceStatus
from laneway.controllers.metrics import AllocationCounts
from laneway.kubelet.plugins import Plugins


class Registrations:
    """How often the kubelet has taken each resource's plugin."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._there: frozenset[str] = frozenset()

    def seen(self, plugins: Plugins, resources: Iterable[str]) -> None:
        """Look which the kubelet has now."""
        there = frozenset(name for name in resources if plugins.state(name).registered)
        self.counts.update(there - self._there)
        self._there = there


def counted(
    devices: Iterable[tuple[str, bool, DeviceStatus]],
    registrations: Mapping[str, int],
    refused: Mapping[str, int],
) -> dict[str, AllocationCounts]:
    """By resource. `devices`: each with its resource, and whether it was given up."""
    there: dict[str, list[tuple[bool, DeviceStatus]]] = {
        name: [] for name in (*registrations, *refused)
    }
    for resource, leaving, device_status in devices:
        there.setdefault(resource, []).append((leaving, device_status))
    return {
        name: AllocationCounts(
            offered=sum(not leaving for leaving, _ in found),
            healthy=sum(one.advertised for _, one in found),
            allocated=sum(one.owner is not None for _, one in found),
            registrations=registrations.get(name, 0),
            refused=refused.get(name, 0),
        )
        for name, found in there.items()
    }
