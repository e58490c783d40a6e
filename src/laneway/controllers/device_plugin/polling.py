"""What must be polled, because it has no events: open devices, and failed resets.

It is looked for when something else has changed, and otherwise now and then: a look goes through
all processes of the node. While a process has a device open that should be free it is looked for
more often, each time later, because the end of a process has no event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from laneway.core.device_plugin.health import node_of
from laneway.core.device_plugin.offer import Offer
from laneway.core.pci import PciAddress
from laneway.host.hardware import Hardware
from laneway.host.holders import node_users
from laneway.host.plans.files import StateError

log = logging.getLogger(__name__)

SLOW_SECONDS = 60.0
SOON_SECONDS = 2.0
REST_SECONDS = 1.0
"""Pause between two looks."""


class Looking:
    """What was found at the last look. Run `run` in a task."""

    def __init__(self, hardware: Hardware, changed: Callable[[], None]) -> None:
        self.quarantined: Mapping[PciAddress, str] = {}
        """Functions whose reset failed, and how."""
        self.opened: Mapping[str, tuple[str, ...]] = {}
        """Processes that have a device's node open, by node."""
        self._hardware = hardware
        self._changed = changed
        self._watched: frozenset[tuple[str, str]] = frozenset()
        """Devices and their nodes in /dev."""
        self._free: frozenset[str] = frozenset()
        """Nodes that no process should have open."""
        self._wake = asyncio.Event()

    def want(self) -> None:
        """Look soon."""
        self._wake.set()

    def watch(self, offers: Collection[Offer]) -> None:
        """From now on these devices are looked at."""
        watched = frozenset((one.id, node) for one in offers if (node := node_of(one)))
        self._free = frozenset(node_of(one) for one in offers if one.unhealthy)
        if not watched <= self._watched:
            self._wake.set()
        self._watched = watched

    async def run(self) -> None:
        """Keep looking until cancelled."""
        soon = SOON_SECONDS
        while True:
            self._wake.clear()
            nodes = frozenset(node for _, node in self._watched)
            found = await asyncio.to_thread(node_users, self._hardware.host, nodes)
            try:
                quarantined: Mapping[PciAddress, str] = self._hardware.state.quarantined
            except StateError as error:
                log.warning("cannot read which resets have failed: %s", error)
                quarantined = self.quarantined
            if (found, quarantined) != (self.opened, self.quarantined):
                self.opened, self.quarantined = found, quarantined
                self._changed()
            await asyncio.sleep(REST_SECONDS)
            soon = min(soon * 2, SLOW_SECONDS) if self._free & found.keys() else SOON_SECONDS
            try:
                async with asyncio.timeout(soon if self._free & found.keys() else SLOW_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue
