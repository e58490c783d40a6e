"""What the form of Rancher's machine pools makes of a Harvester cluster's answers.

Written from a reading of `pkg/harvester-manager/machine-config/harvester.vue` in rancher/dashboard
(01e90d95), for what it does to its user, its defects included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Offer(NamedTuple):
    """A type that can be chosen."""

    resource: str
    available: float | None
    """As the label tells; None: it says that this is not known."""


def resource_of(profile: str) -> str:
    """The name under which it looks for a type: only the first space is replaced."""
    return f"nvidia.com/{profile.replace(' ', '_', 1)}"


def vgpu_offers(profiles: Iterable[str], capacity: Mapping[str, Any] | None) -> tuple[Offer, ...]:
    """The choice. `profiles`: of vGPUs that are enabled; `capacity`: None where it got none."""
    return _offers(map(resource_of, profiles), capacity)


def pci_offers(resources: Iterable[str], capacity: Mapping[str, Any] | None) -> tuple[Offer, ...]:
    """The choice among PCI devices that are claimed, by the names that their objects say."""
    return _offers(resources, capacity)


def _offers(resources: Iterable[str], capacity: Mapping[str, Any] | None) -> tuple[Offer, ...]:
    found = {}
    for resource in resources:
        if capacity is None:
            found[resource] = Offer(resource, None)
        elif (number := float(capacity.get(resource) or 0)) > 0:
            found[resource] = Offer(resource, number)
    return tuple(found.values())


def refuses(available: float | None, machines: int) -> bool:
    """Whether it refuses a pool: where nothing is free or known, it does not check."""
    return available is not None and 0 < available < machines
