"""What the plugins list, and what of it a node's status counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Devices:
    """Healthy and other devices by resource."""

    def __init__(self) -> None:
        self.healthy: dict[str, set[str]] = {}
        self._unhealthy: dict[str, set[str]] = {}
        self._gone: set[str] = set()

    def expect(self, resources: Iterable[str]) -> None:
        """Resources of before a restart: none of their devices counts until they are listed."""
        for resource in resources:
            self.listed(resource, {})

    def listed(self, resource: str, devices: Mapping[str, bool]) -> None:
        """The complete list of a resource, each with whether it is healthy."""
        self.healthy[resource] = {device for device, healthy in devices.items() if healthy}
        self._unhealthy[resource] = devices.keys() - self.healthy[resource]

    def disconnected(self, resource: str) -> None:
        """No plugin reports them any more."""
        self._unhealthy.setdefault(resource, set()).update(self.healthy.pop(resource, ()))
        self.healthy[resource] = set()

    def forget(self, resource: str) -> None:
        """They are no more; the node's status says 0 from then on."""
        self.healthy.pop(resource, None)
        self._unhealthy.pop(resource, None)
        self._gone.add(resource)

    @property
    def resources(self) -> list[str]:
        return sorted(self.healthy)

    @property
    def capacity(self) -> dict[str, int]:
        counts = {
            resource: len(devices) + len(self._unhealthy.get(resource, ()))
            for resource, devices in self.healthy.items()
        }
        return dict.fromkeys(self._gone, 0) | counts

    @property
    def allocatable(self) -> dict[str, int]:
        counts = {resource: len(devices) for resource, devices in self.healthy.items()}
        return dict.fromkeys(self._gone, 0) | counts
