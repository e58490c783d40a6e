"""What was allocated a moment ago, while the kubelet does not report its pod yet.

Between Allocate and the time when the pod resources name the pod nothing else shows
that a device is taken. The time is bounded because a pod may not be admitted after all, and then
the kubelet does not report it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

SECONDS = 30.0

Device = tuple[str, str]
"""Resource and id."""


class RecentAllocations:
    """Devices, and when each was allocated."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._times: dict[Device, float] = {}
        self._ends: dict[Device, asyncio.TimerHandle] = {}
        self._changed = changed
        self.refused: Counter[str] = Counter()
        """How often Allocate was answered with a no, by resource."""

    @property
    def times(self) -> Mapping[Device, float]:
        """When, by the monotonic clock."""
        return MappingProxyType(self._times)

    def of(self, resource: str) -> frozenset[str]:
        return frozenset(one for of, one in self._times if of == resource)

    def note(self, devices: Iterable[Device]) -> None:
        loop = asyncio.get_running_loop()
        for device in devices:
            self._forget(device)
            self._times[device] = time.monotonic()
            self._ends[device] = loop.call_later(SECONDS, self.drop, [device])
        self._changed()

    def drop(self, devices: Iterable[Device]) -> None:
        """These are reported elsewhere, or have no holder."""
        known = [self._forget(device) for device in devices]
        if any(known):
            self._changed()

    def close(self) -> None:
        """No timer goes off after this."""
        for end in self._ends.values():
            end.cancel()
        self._ends.clear()
        self._times.clear()

    def _forget(self, device: Device) -> bool:
        if end := self._ends.pop(device, None):
            end.cancel()
        return self._times.pop(device, None) is not None
