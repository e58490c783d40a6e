"""Releases devices that were bound for claims which were removed before they were released.

Each device for itself: one that fails or is in use waits, and is tried again now and then. Devices
that were bound to vfio-pci otherwise are named in the log, once, and left alone.
"""

from __future__ import annotations

import asyncio
import logging

from laneway.api import PCIDeviceClaim, USBDeviceClaim
from laneway.controllers.acting import ACTOR, Context
from laneway.controllers.device_plugin.controller import DevicePluginController
from laneway.core import names
from laneway.core.claims.orphans import Orphans, orphans
from laneway.core.claims.usb_access import release
from laneway.core.decision import Decision, refusals_of
from laneway.core.inventory import Inventory
from laneway.core.passthrough import binding
from laneway.core.passthrough.iommu_group import group_members
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import Refusal
from laneway.core.requested import UNKNOWN, Origin
from laneway.host.plans.execute import StepError, execute
from laneway.host.plans.files import StateError
from laneway.host.plans.state import BusyError
from laneway.host.situation import observe
from laneway.kube.informer import Informer

log = logging.getLogger(__name__)

_WHY = "the claim of the device no longer exists"


class OrphanKeeper:
    """Looks for devices without claims. Run `run` in a task, with all caches complete."""

    def __init__(
        self,
        node: str,
        context: Context,
        *,
        device_plugin: DevicePluginController,
        claims: Informer[PCIDeviceClaim],
        usb: Informer[USBDeviceClaim],
    ) -> None:
        self.node = node
        self._context = context
        self._device_plugin = device_plugin
        self._claims = claims
        self._usb = usb
        self._wanted = asyncio.Event()
        self._reported: set[str] = set()

    async def run(self) -> None:
        """Look at the start, whenever a claim has gone, and again while something waits."""
        self._claims.subscribe(self._changed)
        self._usb.subscribe(self._changed)
        while True:
            self._wanted.clear()
            try:
                waiting = await self._look()
            except (StateError, OSError) as error:
                waiting = True
                self._tell(str(error), "cannot search for devices without claims")
            if waiting:
                asyncio.get_running_loop().call_later(self._context.timing.retry, self._wanted.set)
            await self._wanted.wait()

    def _changed(
        self,
        _before: PCIDeviceClaim | USBDeviceClaim | None,
        after: PCIDeviceClaim | USBDeviceClaim | None,
    ) -> None:
        if after is None:
            self._wanted.set()

    async def _look(self) -> bool:
        """Release what can be released; whether anything waits."""
        inventory = self._context.observer.inventory
        if inventory is None:
            return True
        noted = self._context.hardware.state.claimed
        found = self._orphans(inventory, noted)
        for one in found.others:
            self._tell(
                str(one), "on vfio-pci without a claim, and not bound by Laneway: not changed"
            )
        ports = self._ports(noted)
        settled = list(found.settled)
        waiting = False
        devices: tuple[PciAddress | str, ...] = (*found.ours, *ports)
        for device in devices:
            done = await self._release(device)
            waiting |= not done
            if done and isinstance(device, str):
                settled.append(device)
        self._forget(settled)
        return waiting

    def _orphans(self, inventory: Inventory, noted: tuple[str, ...]) -> Orphans:
        claimed = set()
        for claim in self._claims.store:
            if claim.spec.node_name == self.node:
                try:
                    claimed.add(PciAddress.parse(claim.spec.address))
                except ValueError:
                    continue  # Such a claim takes nothing.
        return orphans(inventory, noted, claimed)

    def _ports(self, noted: tuple[str, ...]) -> list[str]:
        """The USB ports that were taken and are not claimed."""
        claimed = {one.status.port for one in self._usb.store if one.status.node_name == self.node}
        return [one for one in noted if ":" not in one and one not in claimed]

    async def _release(self, device: PciAddress | str) -> bool:
        """Whether a device is back with the node, or at least not Laneway's any more."""
        turn = (device,) if isinstance(device, PciAddress) else ()
        caller = "orphan", str(device)
        with self._context.locks.acquire_all(turn, caller, self._wanted.set) as acquired:
            if not acquired:
                return False
            try:
                decision = await self._decide(device)
                refusals: tuple[Refusal, ...] = refusals_of(decision)
                if isinstance(decision, Plan):
                    await execute(
                        self._context.hardware,
                        decision,
                        actor=ACTOR,
                        reason=_WHY,
                        origin=self._origin(device),
                    )
                    log.info("%s: released: no claim requests it any more", device)
                    await self._context.observer.rescan()
            except StepError as error:
                refusals = (error.refusal,)
            for refusal in refusals:
                self._tell(str(device), refusal.words)
            return not refusals

    def _origin(self, device: PciAddress | str) -> Origin:
        """The object of the device; of a USB port it is not known which device was in it."""
        if isinstance(device, str):
            return UNKNOWN
        return Origin("PCIDevice", names.pci_object_name(self.node, device))

    async def _decide(self, device: PciAddress | str) -> Decision:
        hardware = self._context.hardware
        if isinstance(device, str):
            return release(device, await observe(hardware, self.node, (), (device,)))
        situation = await observe(hardware, self.node, (device,))
        function = situation.inventory.function(device)
        orphaned = self._orphans(situation.inventory, hardware.state.claimed).ours
        if function is None or device not in orphaned:
            return Satisfied()  # It went, or is claimed meanwhile.
        for member in group_members(function, situation.inventory):
            name = names.pci_object_name(self.node, member.address)
            if who := await self._device_plugin.withdrawn("PCIDevice", name):
                return who
        return binding.release(device, situation)

    def _forget(self, devices: list[str]) -> None:
        state = self._context.hardware.state
        try:
            with state.lock(ACTOR):
                state.unclaim(devices)
        except BusyError as error:
            log.debug("%s", error.refusal.words)

    def _tell(self, device: str, words: str) -> None:
        if (text := f"{device}: {words}") not in self._reported:
            self._reported.add(text)
            log.warning("%s", text)
