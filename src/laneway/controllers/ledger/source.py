"""The ledger of the cluster, kept up to date by watches.

What follows from the objects is gathered when they change, and a moment later the ledger is brought
up to it outside the event loop, at the cost of what depends on it (`core.ledger.upkeep`). After the
heartbeat of a node nothing follows, and the ledger stays the same. `fresh` brings it up at once,
for callers that decide by it; what was gathered before is taken in before.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from laneway.api import CoreNode, PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.controllers.cluster.caches import Vgpu
from laneway.controllers.ledger import devices
from laneway.controllers.ledger.gathering import Gathering
from laneway.controllers.ledger.objects import Pod
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.upkeep import Changes, Upkeep
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.resource import KubeObject

log = logging.getLogger(__name__)

REST_SECONDS = 0.2
"""How long changes are gathered before the ledger is made."""
FRESH_SECONDS = 0.02
"""A ledger that takes longer to make is not made while everybody's answers wait."""


class Informers(Protocol):
    """The caches that a ledger is made from, which may serve others as well."""

    @property
    def claims(self) -> Informer[PCIDeviceClaim]: ...
    @property
    def vgpus(self) -> Informer[Vgpu | VGPUDevice]:
        """Of VGPUDevices, as far as they are read."""

    @property
    def usb_claims(self) -> Informer[USBDeviceClaim]: ...
    @property
    def vms(self) -> Informer[VirtualMachine]: ...
    @property
    def instances(self) -> Informer[VirtualMachineInstance]: ...
    @property
    def pods(self) -> Informer[Pod]: ...
    @property
    def nodes(self) -> Informer[CoreNode]: ...


class LedgerSource:
    """Gives the ledger to its callers. Run `run` in a task, and the caches in others."""

    def __init__(self, caches: Informers, *, rest: float = REST_SECONDS) -> None:
        self.known = asyncio.Event()
        """Set once the ledger says something about everything."""
        self.build_seconds = 0.0
        """How long it took to make the ledger that there is."""
        self._ledger: Ledger | None = None
        self._caches = caches
        self._rest = rest
        self._changed = asyncio.Event()
        self._changes = 0
        self._made = -1
        """How many changes had happened before the ledger that there is was made."""
        self._upkeep = Upkeep()
        self._taken: deque[Changes] = deque()
        self._lock = threading.Lock()
        self._gathering = Gathering(
            self._change,
            vms=caches.vms,
            instances=caches.instances,
            pods=caches.pods,
            nodes=caches.nodes,
        )
        self._listeners: list[Callable[[Ledger], None]] = []
        self._gathering.follow("claim", caches.claims, devices.of_claim)
        self._gathering.follow("vgpu", caches.vgpus, devices.of_vgpu)
        self._gathering.follow("usb", caches.usb_claims, devices.of_usb_claim)

    @property
    def ledger(self) -> Ledger | None:
        """As of a moment ago; None until everything is known."""
        return self._ledger

    def fresh(self) -> Ledger | None:
        """As of now; None until everything is known."""
        if self.known.is_set() and self._made != self._changes:
            self._taken.append(self._gathering.take())
            self._put(self._changes, *self._bring_up())
        return self._ledger

    def current(self) -> Ledger | None:
        """As of now; in a large cluster as of a moment ago, made concurrently with the answers."""
        return self.fresh() if self.build_seconds <= FRESH_SECONDS else self.ledger

    def subscribe(self, listener: Callable[[Ledger], None]) -> None:
        """Call with every ledger that is made from now on."""
        self._listeners.append(listener)

    def waiting_for(self) -> list[str]:
        """The kinds of which not everything is known yet."""
        return [name for name, informer in self._informers() if not informer.answered.is_set()]

    async def run(self) -> None:
        """Keep the ledger until cancelled."""
        for _, informer in self._informers():
            await informer.answered.wait()
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._made != self._changes:
                changes = self._changes
                self._taken.append(self._gathering.take())
                self._put(changes, *await asyncio.to_thread(self._bring_up))
            await asyncio.sleep(self._rest)

    def _informers(self) -> list[tuple[str, Informer[KubeObject]]]:
        caches = self._caches
        return [
            ("claims", caches.claims),
            ("vgpus", caches.vgpus),
            ("usb_claims", caches.usb_claims),
            ("machines", caches.vms),
            ("instances", caches.instances),
            ("pods", caches.pods),
            ("nodes", caches.nodes),
        ]

    def _change(self) -> None:
        self._changes += 1
        self._changed.set()

    def _bring_up(self) -> tuple[Ledger, float]:
        """Take in everything in order; also what another thread was about to."""
        with self._lock:
            began = time.perf_counter()
            ledger = self._upkeep.ledger
            while self._taken:
                ledger = self._upkeep.apply(self._taken.popleft())
            return ledger, time.perf_counter() - began

    def _put(self, changes: int, ledger: Ledger, seconds: float) -> None:
        if changes < self._made:
            return  # A caller could not wait, and has seen more.
        self._made = changes
        self.known.set()
        if ledger is self._ledger:
            return
        self._ledger, self.build_seconds = ledger, seconds
        for listener in self._listeners:
            listener(ledger)
