"""Hands a node's devices out: what is ready goes to the kubelet as soon as KubeVirt permits it.

Everything is worked out again from what is: inventory, objects, what the kubelet says. So there is
nothing to restore after a restart, and no order in which changes must come. Many changes at once
are one; what has not changed is not sent again.

Nothing is taken from a pod here. `withdrawn` ends the allocation of a device and returns
its holders; controllers that take hardware away ask it first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from laneway.api import Allocation
from laneway.controllers.device_plugin.allocations import Allocations
from laneway.controllers.device_plugin.counting import Registrations, counted
from laneway.controllers.device_plugin.desired import Asked, Caches
from laneway.controllers.device_plugin.entries import Entries
from laneway.controllers.device_plugin.gate import Gate
from laneway.controllers.device_plugin.permission import Permission, Permitted, Say
from laneway.controllers.device_plugin.polling import Looking
from laneway.controllers.device_plugin.status import (
    NO_KUBELET,
    NOT_READY,
    WAITING,
    WITHDRAWN,
    DeviceStatus,
    device_status,
    misnamed,
)
from laneway.controllers.device_plugin.withheld import Withheld
from laneway.controllers.metrics import AgentMetrics, AllocationCounts
from laneway.controllers.observing.xids import Xids
from laneway.core.device_plugin.device_list import Offers, offers
from laneway.core.device_plugin.health import Device, Facts, device_of, judged, with_group_members
from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.inventory import Inventory
from laneway.core.refusals import AllocationUnknown, DeviceAllocated, Refusal
from laneway.host.hardware import Hardware
from laneway.kube.client import Client
from laneway.kubelet.errors import KubeletError
from laneway.kubelet.plugins import Plugins

__all__ = ["Caches", "DevicePluginController", "DeviceStatus", "Listener", "Say"]

SETTLING_SECONDS = 5.0
"""A kubelet answers within much less, if it is there."""
PODS_UNKNOWN = "the kubelet has not listed all running pods yet"
CLAIMS_UNKNOWN = "the API server has not listed yet which ResourceClaims have devices"
NOT_REGISTERED = "NotRegistered"
"""Reason of `Advertised` while the kubelet does not know of a device's resource."""

Listener = Callable[[str, str], None]
"""Called with kind and name of the object whose device's status changed."""


class ResourceSlices(Protocol):
    """Another way for devices to pods than the kubelet's."""

    def subscribe(self, listener: Callable[[], None], /) -> None:
        """Have a call when others have other devices than before."""

    @property
    def known(self) -> asyncio.Event:
        """Set once the holders are known this way."""

    def offered(
        self,
        offers: Sequence[Offer],
        inventory: Inventory,
        owners: Mapping[Device, Owner],
        given_up: Sequence[Offer],
        /,
    ) -> None:
        """Take all that is offered, the holders as far as known, and what is offered no more."""

    def without_claimed(self, offers: Sequence[Offer], /) -> Sequence[Offer]:
        """The offers, unhealthy for the kubelet where others have them this way."""

    def claim_of(self, offer: Offer, /) -> str:
        """The ResourceClaim that has a device this way; empty where none has it."""


class _Ready(NamedTuple):
    """A device that is ready."""

    offer: Offer
    leaving: bool


class DevicePluginController:
    """What one node's kubelet is offered. Run `run` in a task."""

    def __init__(
        self,
        node: str,
        hardware: Hardware,
        client: Client,
        caches: Caches,
        kubelet: str,
        *,
        metrics: AgentMetrics,
        slices: ResourceSlices,
    ) -> None:
        self.node = node
        self._asked = Asked(node, hardware.host, caches)
        self._inventory: Inventory | None = None
        self._ready: dict[tuple[str, str], _Ready] = {}
        self._statuses: dict[tuple[str, str], DeviceStatus] = {}
        self._resources: frozenset[str] = frozenset()
        self._withheld = Withheld()
        self._listeners: list[Listener] = []
        self._slices = slices
        slices.subscribe(self.poke)
        metrics.counts_allocations(self.counts)
        self._registrations = Registrations()
        self._poked = False
        self._begun = False
        """Whether enough is known of the devices to tell others of them."""
        self._moved = asyncio.Event()
        self._permission = Permission(client, self.poke)
        self._looking = Looking(hardware, self.poke)
        self.xids = Xids(hardware.host)
        gate = Gate(node, client, caches, kubelet)
        self._plugins = Plugins(kubelet, gate) if kubelet else None
        self._allocations = (
            Allocations(kubelet, caches.pods, self._resources_have, self._owners_changed)
            if kubelet
            else None
        )

    # ------------------------------------------------------------------------- what others ask

    def device_status(self, kind: str, name: str) -> DeviceStatus:
        """How far the device is for which an object of this name stands.

        `kind`: PCIDevice, VGPUDevice or USBDevice; the first two mean the same function.
        """
        return self._statuses.get(_key(kind, name), NOT_READY)

    async def withdrawn(self, kind: str, name: str) -> tuple[Refusal, ...]:
        """Make sure that the device is not allocated any more, and return its holders.

        Empty: it has no holder, and may be taken away.
        """
        if self._plugins is None or self._allocations is None:
            return ()
        key = _key(kind, name)
        if kind == "VGPUDevice" and (ready := self._ready.get(key)):
            self._withheld.add(key, device_of(ready.offer), self.poke)
        self._refresh()
        await self._plugins.sent()
        fresh = set(self._plugins.recent_allocations())
        try:
            await self._allocations.read(fresh=bool(fresh))
        except KubeletError as error:
            refusal: Refusal = AllocationUnknown(name, str(error))
        else:
            self._refresh()
            ready = self._ready.get(key)
            owner = self.device_status(kind, name).owner
            if owner is not None:
                refusal = DeviceAllocated(name, owner.namespace, owner.pod, owner.virtual_machine)
            elif ready and device_of(ready.offer) in fresh:
                refusal = DeviceAllocated(name, "", "")
            elif ready and ready.offer.resource in self._allocations.lacking:
                refusal = AllocationUnknown(name, PODS_UNKNOWN)
            elif ready and not self._slices.known.is_set():
                refusal = AllocationUnknown(name, CLAIMS_UNKNOWN)
            elif ready and (claim := self._slices.claim_of(ready.offer)):
                refusal = DeviceAllocated(name, "", "", resource_claim=claim)
            else:
                return ()
        # A desired state that takes it away keeps it from others; without one it is to be had
        # again.
        self._withheld.drop(key)
        self.poke()
        return (refusal,)

    def subscribe(self, listener: Listener) -> None:
        """Have a call for every device whose status changes."""
        self._listeners.append(listener)

    def counts(self) -> dict[str, AllocationCounts]:
        """What there is for pods, and how it went, by resource."""
        refused = self._plugins.refused if self._plugins is not None else {}
        devices = [
            (offer.resource, leaving, self._statuses[key])
            for key, (offer, leaving) in self._ready.items()
        ]
        return counted(devices, self._registrations.counts, refused)

    async def settle(self) -> None:
        """Wait, not for long, until the current state is reported, and not that of a start.

        What is stored of a device from before is better than that it is being advertised just now.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLING_SECONDS):
                await self._permission.answered()
                if self._plugins is not None and self._allocations is not None:
                    await self._allocations.asked.wait()
                    self._refresh()
                    while self._may_be_advertised_soon():
                        self._moved.clear()
                        await self._moved.wait()
        self._refresh()

    # --------------------------------------------------------------------------- what happens

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory."""
        self._inventory = inventory
        self._looking.want()
        self._refresh()

    def poke(self) -> None:
        """Something has changed: work everything out again, once for all that changes now."""
        if not self._poked:
            self._poked = True
            asyncio.get_running_loop().call_soon(self._refresh)

    async def run(self) -> None:
        """Keep the kubelet's view in step until cancelled. The caches must be complete."""
        self._asked.subscribe(self.poke)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._permission.run())
            tasks.create_task(self._looking.run())
            self.xids.subscribe(self.poke)
            tasks.create_task(self.xids.run())
            # A kubelet must not take a card for sound because its errors have not been read yet,
            # nor for free because it is not reported yet that a ResourceClaim has it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLING_SECONDS):
                    await self.xids.caught_up.wait()
                    await self._slices.known.wait()
            self._begun = True
            self._refresh()
            if self._plugins is not None and self._allocations is not None:
                self._plugins.subscribe(self._kubelet_changed)
                tasks.create_task(self._plugins.run())
                tasks.create_task(self._allocations.run(self._is_anything_fresh))

    def _may_be_advertised_soon(self) -> bool:
        """Whether something could be advertised in a moment."""
        statuses = self._statuses.values()
        return any(one.advertised_why.reason == NOT_REGISTERED for one in statuses)

    def _kubelet_changed(self) -> None:
        if self._plugins is not None:
            self._registrations.seen(self._plugins, self._resources)
        self.poke()
        if self._allocations is not None and self._is_anything_fresh():
            self._allocations.want()

    def _owners_changed(self) -> None:
        if self._plugins is not None and self._allocations is not None:
            owners = self._allocations.owners or {}
            self._plugins.confirm(
                [device for device, owner in owners.items() if self._allocations.known(owner)]
            )
        self._looking.want()
        self.poke()

    def _is_anything_fresh(self) -> bool:
        return self._plugins is not None and bool(self._plugins.recent_allocations())

    def _resources_have(self, resource: str) -> bool:
        return resource in self._resources

    # ---------------------------------------------------------------------- how it is worked out

    def _refresh(self) -> None:
        self._poked = False
        if self._inventory is None:
            return
        desired_states = self._asked.desired_states(self._inventory)
        found = offers(self._inventory, self.node, desired_states)
        self._work_out(self._inventory, found)

    def _work_out(self, inventory: Inventory, found: Offers) -> None:
        owners = self._allocations.owners if self._allocations else None
        facts = Facts(
            quarantined=self._looking.quarantined,
            faults=self.xids.faults,
            owners=owners,
            fresh=tuple(self._plugins.recent_allocations()) if self._plugins else (),
            wanting=self._allocations.wanting if self._allocations else (),
            opened=self._looking.opened,
        )
        healthy = judged((*found.offered, *found.leaving), inventory, facts)
        every = self._slices.without_claimed(healthy)
        self._ready = {
            _key(offer.kind, offer.name): _Ready(offer, number >= len(found.offered))
            for number, offer in enumerate(every)
        }
        self._resources = frozenset(offer.resource for offer in every)
        self._looking.watch(every)
        self._withheld.keep({key: device_of(one.offer) for key, one in self._ready.items()})
        entries = Entries(inventory)
        allowed = {
            key: self._permission.of(entries.of(one.offer)) for key, one in self._ready.items()
        }
        if self._plugins is not None:
            self._plugins.offer(
                [
                    one.offer
                    for key, one in self._ready.items()
                    if not self._is_kept(key, one) and allowed[key].allowed is not False
                ]
            )
        if self._begun and (owners is not None or self._plugins is None):
            self._publish(healthy, inventory, owners or {})
        taken = with_group_members(every, owners or {})
        statuses = {
            _key("PCIDevice", name): misnamed(refusal) for name, refusal in found.refused.items()
        }
        for key, one in self._ready.items():
            owner = taken.get(device_of(one.offer))
            has: Allocation | None = (
                self._allocations.allocation(owner) if owner and self._allocations else None
            )
            statuses[key] = device_status(
                one.offer, allowed[key], self._kept(key, one, allowed[key]), has
            )
        self._tell(statuses)
        self._moved.set()

    def _publish(
        self,
        offers: Sequence[Offer],
        inventory: Inventory,
        owners: Mapping[Device, Owner],
    ) -> None:
        """Say what is offered.

        What was allocated a moment ago has a holder, not yet known. So may each device of a
        resource of which a pod that runs must have more than the kubelet says.
        """
        held = list(self._plugins.recent_allocations()) if self._plugins is not None else []
        lacking = self._allocations.lacking if self._allocations is not None else ()
        held += [device_of(one) for one in offers if one.resource in lacking]
        known = {**dict.fromkeys(held, Owner(namespace="", pod="")), **owners}
        offered: list[Offer] = []
        given_up: list[Offer] = []
        for one in offers:
            key = _key(one.kind, one.name)
            (given_up if self._is_kept(key, self._ready[key]) else offered).append(one)
        self._slices.offered(offered, inventory, known, given_up)

    def _kept(self, key: tuple[str, str], one: _Ready, allowed: Permitted) -> Say | None:
        """Why the kubelet does not hand a device out, whatever its health."""
        if self._plugins is None:
            return NO_KUBELET
        if self._is_kept(key, one):
            return WITHDRAWN
        if allowed.allowed is False:
            return WAITING
        state = self._plugins.state(one.offer.resource)
        return None if state.registered else Say(NOT_REGISTERED, _sentence(state.problem))

    def _is_kept(self, key: tuple[str, str], one: _Ready) -> bool:
        return one.leaving or key in self._withheld

    def _tell(self, statuses: dict[tuple[str, str], DeviceStatus]) -> None:
        before, self._statuses = self._statuses, statuses
        for key in sorted(before.keys() | statuses.keys()):
            if before.get(key) != statuses.get(key):
                family, name = key
                for kind in ("PCIDevice", "VGPUDevice") if family == _FUNCTION else (family,):
                    for listener in self._listeners:
                        listener(kind, name)


_FUNCTION = "function"


def _key(kind: str, name: str) -> tuple[str, str]:
    """PCIDevices, VGPUDevices and claims of one function have one name."""
    return kind if kind == "USBDevice" else _FUNCTION, name


def _sentence(text: str) -> str:
    return (
        f"The kubelet does not know the resource yet: {text or 'the registration is in progress'}."
    )
