"""The ledger of the cluster, kept up to date by watches.

Each device is turned into its fact when its object changes, because there are many and most changes
concern something else of an object. A moment after a change the ledger is made again from all
facts, outside the event loop, unless the facts are the same, as after the heartbeat of a node:
making it is quick, and a ledger that is changed bit by bit could drift from its facts. `fresh`
makes it at once, for callers that decide by it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from laneway.api import CoreNode, PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.controllers.cluster.caches import Vgpu
from laneway.controllers.ledger import demands, devices, nodes
from laneway.controllers.ledger.objects import Pod, asks
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import DeviceFact, Facts
from laneway.core.ledger.ledger import Ledger
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.resource import Key, KubeObject, T, key_of

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
        self._asking: dict[Key, Pod] = {}
        """Pods that may request devices, of all that there are."""
        self._devices: dict[tuple[str, Key], DeviceFact] = {}
        self._changed = asyncio.Event()
        self._changes = 0
        self._made = -1
        """How many changes had happened before the ledger that there is was made."""
        self._last: Facts | None = None
        """What it was made from."""
        self._listeners: list[Callable[[Ledger], None]] = []
        self._follow("claim", caches.claims, devices.of_claim)
        self._follow("vgpu", caches.vgpus, devices.of_vgpu)
        self._follow("usb", caches.usb_claims, devices.of_usb_claim)
        caches.pods.subscribe(self._pod_changed)
        for informer in (caches.vms, caches.instances, caches.nodes):
            informer.subscribe(lambda *_: self._change())

    @property
    def ledger(self) -> Ledger | None:
        """As of a moment ago; None until everything is known."""
        return self._ledger

    def fresh(self) -> Ledger | None:
        """As of now; None until everything is known."""
        if self.known.is_set() and (facts := self._news()) is not None:
            self._put(self._changes, facts, *_timed(facts))
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
            changes, facts = self._changes, self._news()
            if facts is not None:
                self._put(changes, facts, *await asyncio.to_thread(_timed, facts))
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

    def _follow(
        self, kind: str, informer: Informer[T], fact_of: Callable[[T], DeviceFact | None]
    ) -> None:
        def changed(before: T | None, after: T | None) -> None:
            if (one := after or before) is None:
                return
            key = kind, key_of(one)
            fact = None if after is None else fact_of(after)
            if fact == self._devices.get(key):
                return
            if fact is None:
                del self._devices[key]
            else:
                self._devices[key] = fact
            self._change()

        informer.subscribe(changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None and asks(after):
            self._asking[key_of(after)] = after
        elif before is None or self._asking.pop(key_of(before), None) is None:
            return
        self._change()

    def _change(self) -> None:
        self._changes += 1
        self._changed.set()

    def _news(self) -> Facts | None:
        """The facts as of now, if they are not those of the ledger that there is."""
        if self._made == self._changes:
            return None
        facts = self._facts()
        if facts != self._last:
            return facts
        self._made = self._changes
        return None

    def _facts(self) -> Facts:
        there = tuple(self._devices.values())
        resources = {device.resource for device in there}
        caches, pods = self._caches, self._asking.values()
        asking = [
            *demands.of_vms(caches.vms.store, caches.instances.store, pods),
            *(one for pod in pods if (one := demands.of_pod(pod, resources)) is not None),
        ]
        seen = map(nodes.of_node, caches.nodes.store)
        # In an order that does not depend on what changed last.
        return Facts(
            there,
            tuple(sorted(asking, key=lambda demand: demand.consumer)),
            tuple(sorted(seen, key=lambda node: node.name)),
        )

    def _put(self, changes: int, facts: Facts, ledger: Ledger, seconds: float) -> None:
        if changes < self._made:
            return  # A caller could not wait, and has seen more.
        self._made, self._last = changes, facts
        self._ledger, self.build_seconds = ledger, seconds
        self.known.set()
        for listener in self._listeners:
            listener(ledger)


def _timed(facts: Facts) -> tuple[Ledger, float]:
    began = time.perf_counter()
    return build(facts), time.perf_counter() - began
