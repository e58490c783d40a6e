"""vGPUs that may be taken away, and are not allocated meanwhile.

A vGPU can be desired again while it is being taken away, and a pod that got it then would start
with nothing. So it is withheld until it is gone, or it is clear that it has not been taken away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from laneway.core.device_plugin.health import Device

SECONDS = 30.0
"""How long it may take until a vGPU is gone."""

Key = tuple[str, str]


class _One(NamedTuple):
    device: Device
    until: float


class Withheld:
    """What is not allocated, although it may be desired."""

    def __init__(self) -> None:
        self._until: dict[Key, _One] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._until

    def add(self, key: Key, device: Device, over: Callable[[], None]) -> None:
        """Withhold a device; `over` is called when that has lasted too long."""
        loop = asyncio.get_running_loop()
        self._until[key] = _One(device, loop.time() + SECONDS)
        loop.call_later(SECONDS, over)

    def drop(self, key: Key) -> None:
        """It is not taken away."""
        self._until.pop(key, None)

    def keep(self, ready: Mapping[Key, Device]) -> None:
        """Withhold nothing that is no more, or another device, or was so for too long."""
        now = asyncio.get_running_loop().time()
        self._until = {
            key: one
            for key, one in self._until.items()
            if one.until > now and ready.get(key) == one.device
        }
