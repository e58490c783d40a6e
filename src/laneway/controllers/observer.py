"""Keeps the latest inventory of one host, and says when it changed.

Kernel events trigger a scan of the host; a slow rescan is the safety net for what emits no event
(attributes that a driver changes) or was missed. Where events cannot be received the rescan is
shortened, and the reason is told.

A scan looks at everything. It takes some 30 ms on a server with over a thousand devices, and what
one device means depends on others (IOMMU groups, mounts, routes, sibling VFs), so a partial scan
would save little and could be wrong. Instead a storm of events is limited: those that arrive while
a scan runs cause exactly one more, and between two scans the host rests for a multiple of what a
scan takes. The last state always wins.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from laneway.controllers.metrics import AgentMetrics
from laneway.core.inventory import Inventory
from laneway.core.uevent import Uevent
from laneway.host.port import Host, UeventsUnavailableError
from laneway.host.scan import scan

log = logging.getLogger(__name__)

RESCAN_SECONDS = 300.0
RESCAN_SECONDS_WITHOUT_EVENTS = 30.0
REST = 4.0
"""Pause after a scan, in durations of that scan: events can keep a fifth of one core busy."""

_SUBSYSTEMS = frozenset({"pci", "usb", "mdev", "mdev_bus", "net", "block", "iommu", "vfio"})
"""Subsystems whose events can change an inventory; the kernel has dozens more."""

Listener = Callable[[Inventory], None]


class Observer:
    """Owns the inventory of one host. Run `run` in a task; read `inventory` at any time."""

    def __init__(
        self, host: Host, metrics: AgentMetrics, *, rescan_seconds: float = RESCAN_SECONDS
    ) -> None:
        self._host = host
        self._metrics = metrics
        self._rescan_seconds = rescan_seconds
        self._listeners: list[Listener] = []
        self._wanted = asyncio.Event()
        self._scanning = asyncio.Lock()
        self.inventory: Inventory | None = None
        """None until the first scan is complete."""
        self.scanned = asyncio.Event()
        """Set once the first scan is complete."""
        self.uevents_unavailable = ""
        """Why kernel events cannot be received here; empty when they can."""

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every new inventory, and with the present one at once."""
        self._listeners.append(listener)
        if self.inventory is not None:
            listener(self.inventory)

    def want(self) -> None:
        """Ask for a scan soon."""
        self._wanted.set()

    async def rescan(self) -> Inventory:
        """Scan now and return what was found; listeners have been told when this returns."""
        async with self._scanning:
            started = time.perf_counter()
            inventory = await asyncio.to_thread(scan, self._host)
            self._metrics.scanned(time.perf_counter() - started, inventory)
            if inventory != self.inventory:
                await self._tell(inventory)
            self.scanned.set()
            return inventory

    async def _tell(self, inventory: Inventory) -> None:
        known = set(self.inventory.errors) if self.inventory is not None else set()
        for error in inventory.errors:
            if error not in known:
                log.warning("%s: %s", error.device, error.message)
        self.inventory = inventory
        for listener in list(self._listeners):
            # On a large server each takes milliseconds, between which others have their turn.
            await asyncio.sleep(0)
            try:
                listener(inventory)
            except Exception:
                # One family of devices that cannot be shown must not hide the others.
                log.exception("an inventory could not be taken in")

    async def run(self) -> None:
        """Scan at the start, after every relevant event, and now and then."""
        async with asyncio.TaskGroup() as tasks:
            listening = asyncio.Event()
            tasks.create_task(self._listen(listening))
            # Subscribed before the first scan: what changes during it is seen afterwards.
            await listening.wait()
            while True:
                self._wanted.clear()
                started = time.perf_counter()
                await self.rescan()
                await asyncio.sleep(REST * (time.perf_counter() - started))
                try:
                    async with asyncio.timeout(self._pause()):
                        await self._wanted.wait()
                except TimeoutError:
                    log.debug("periodic rescan")

    def _pause(self) -> float:
        seconds = self._rescan_seconds
        if self.uevents_unavailable:
            seconds = min(seconds, RESCAN_SECONDS_WITHOUT_EVENTS)
        return seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads nodes, is no secret

    async def _listen(self, listening: asyncio.Event) -> None:
        try:
            async with self._host.uevents() as events:
                listening.set()
                async for event in events:
                    self._metrics.uevent(event.subsystem or event.action)
                    if _relevant(event):
                        self.want()
        except UeventsUnavailableError as error:
            self.uevents_unavailable = str(error)
            log.warning(
                "kernel events cannot be received: %s; rescanning every %.0f s instead",
                error,
                min(self._rescan_seconds, RESCAN_SECONDS_WITHOUT_EVENTS),
            )
            listening.set()


def _relevant(event: Uevent) -> bool:
    """Whether an event can change an inventory. Every pod that starts makes virtual interfaces."""
    if event.action == "overflow":
        return True
    return event.subsystem in _SUBSYSTEMS and not event.devpath.startswith("/devices/virtual/")
