"""USBDevice: every USB device of the node that is not a root hub.

A claim remembers the device that it was made for. So a claimed device keeps its object and name
when it is plugged in again, and while it is away the object stays, as `orphaned`. Whether VMs can
use a device is what its claim says; an object that its claim has not answered for yet, such as one
of Harvester's, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.api import (
    USB_ORPHANED,
    Condition,
    ObjectMeta,
    Status,
    USBDevice,
    USBDeviceClaim,
    USBDeviceStatus,
    find_condition,
)
from laneway.controllers.devices.family import READ_FAILED, Family, ready, unreadable
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.publisher import Publisher
from laneway.core import ids, keys, names
from laneway.core.claims.usb import Remembered, candidates, named
from laneway.core.inventory import Inventory, UsbDevice
from laneway.core.passthrough import usability
from laneway.core.refusals import UsbDeviceNotFound
from laneway.host.paths import is_usb_port
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer


def wanted(
    inventory: Inventory, node: str, devices: Mapping[str, UsbDevice]
) -> dict[str, USBDevice]:
    """One object per device, by its name."""
    return {
        name: USBDevice(
            metadata=ObjectMeta(name=name, labels={keys.LABEL_NODE: node}),
            status=_status(name, device, inventory, node),
        )
        for name, device in devices.items()
    }


def _status(name: str, device: UsbDevice, inventory: Inventory, node: str) -> USBDeviceStatus:
    reasons = usability.judge_usb(device, inventory)
    claimable = usability.usable(reasons)
    return USBDeviceStatus(
        vendor_id=device.vendor,
        product_id=device.product,
        node_name=node,
        resource_name=names.usb_resource_name(name),
        device_path=device.device_path,
        description=names.usb_description(device.vendor, device.product, device.product_name),
        pci_address="" if device.controller is None else str(device.controller),
        class_type=ids.usb_class(device.class_code),
        port=device.port,
        serial=device.serial,
        conditions=[
            ready("Observed", "The status is what the kernel shows."),
            Condition(
                type="Claimable",
                status="True" if claimable else "False",
                reason="Free" if claimable else reasons[0].kind.value,
                message=usability.short(reasons) or "The node does not need the device.",
            ),
        ],
    )


class Seats(NamedTuple):
    """The USB devices of a node by name, and what its claims remember."""

    devices: dict[str, UsbDevice]
    claimed: dict[str, Remembered]

    def missing(self, name: str, inventory: Inventory) -> UsbDeviceNotFound:
        """That a claim's device is not there."""
        known = self.claimed.get(name, Remembered())
        taken = {device.port for one, device in self.devices.items() if one in self.claimed}
        alike = candidates(known, (one for one in inventory.usb if one.port not in taken))
        ports = tuple(one.port for one in alike) if known.vendor else ()
        return UsbDeviceNotFound(name, known.port, ports)


def seats(inventory: Inventory, node: str, claims: Iterable[USBDeviceClaim]) -> Seats:
    """Which device bears which name. Claims of other nodes do not count."""
    claimed = {
        claim.metadata.name: Remembered(
            vendor=claim.status.vendor_id,
            product=claim.status.product_id,
            serial=claim.status.serial,
            port=claim.status.port,
        )
        for claim in claims
        if claim.status.node_name == node
    }
    return Seats(named(inventory.usb, node, claimed), claimed)


class UsbPublisher(Publisher[USBDevice]):
    """The publisher of one node's USBDevices. Claims of all nodes are watched."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[USBDevice],
        metrics: AgentMetrics,
        *,
        claims: Informer[USBDeviceClaim],
    ) -> None:
        family = Family(USBDevice, self._objects, self._with_claim, self._keep)
        super().__init__(family, node, client, informer, metrics)
        self._claims = claims
        self._seats = Seats({}, {})

    async def run(self) -> None:
        self._claims.subscribe(self._claim_changed)
        await super().run()

    def _claim_changed(self, before: USBDeviceClaim | None, after: USBDeviceClaim | None) -> None:
        claim = after or before
        if claim is None or claim.metadata.name not in self._seats.devices | self._seats.claimed:
            return
        if self._outstanding is not None and _remembers(before) != _remembers(after):
            self.observed(self.inventory)
        self.queue.add(claim.metadata.name)

    def _objects(self, inventory: Inventory, node: str) -> Mapping[str, USBDevice]:
        self._seats = seats(inventory, node, self._claims.store)
        return wanted(inventory, node, self._seats.devices)

    def _with_claim(self, stored: USBDevice, shown: USBDevice) -> Status:
        """What the kernel shows, and what the claim says."""
        claim = self._claims.store.get(stored.metadata.name)
        answer = find_condition(claim.status.conditions, "Ready") if claim else None
        if claim is not None and (answer is None or answer.reason == READ_FAILED):
            enabled = stored.status.enabled
        else:
            enabled = answer is not None and answer.status == "True"
        return msgspec.structs.replace(shown.status, enabled=enabled)

    def _keep(self, stored: USBDevice, inventory: Inventory) -> bool:
        """A claimed device that was pulled out stays, and says so; others go.

        An object of before does not know its port, so a port that cannot be read keeps them all.
        """
        failed = any(is_usb_port(error.device) for error in inventory.errors)
        claimed = self._claims.store.get(stored.metadata.name) is not None
        return claimed or failed or unreadable(inventory, ())

    async def report(self, stored: USBDevice) -> Retry | None:
        name = stored.metadata.name
        claim = self._claims.store.get(name)
        if name in self.wanted or claim is None:
            return await super().report(stored)
        missing = self._seats.missing(name, self.inventory)
        status = msgspec.structs.replace(
            stored.status,
            status=USB_ORPHANED,
            message=missing.words,
            conditions=[ready(missing.reason, missing.words, status=False)],
        )
        await self.write_status(stored, status)
        return None


def _remembers(claim: USBDeviceClaim | None) -> tuple[str, ...]:
    if claim is None:
        return ()
    status = claim.status
    return status.node_name, status.vendor_id, status.product_id, status.serial, status.port
