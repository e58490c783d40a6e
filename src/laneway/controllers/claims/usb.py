"""Carries out USBDeviceClaims: QEMU may open the device's node, wherever it is plugged in.

A claim has no spec that says where its device is. It belongs to the node that its status names, and
before that to the one whose USBDevice has its name, or could have it.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from laneway.api import Condition, USBDevice, USBDeviceClaim, USBDeviceClaimStatus
from laneway.controllers.acting import Context, OperationNames, RetryFingerprint
from laneway.controllers.claims.conditions import bound_condition, conditions
from laneway.controllers.claims.controller import ClaimController
from laneway.controllers.device_plugin.controller import DevicePluginController
from laneway.controllers.devices.usb import Seats, seats
from laneway.core import keys
from laneway.core.claims.usb_access import claim, release
from laneway.core.decision import Decision
from laneway.core.inventory import UsbDevice
from laneway.core.passthrough.usability import judge_usb
from laneway.core.pci import PciAddress
from laneway.core.plan import Satisfied
from laneway.core.refusals import Refusal
from laneway.core.situation import Situation
from laneway.host.plans.files import StateError
from laneway.host.situation import observe
from laneway.host.usb import read_owners
from laneway.kube.client import Client
from laneway.kube.informer import Informer

_OWN = re.compile(r"[0-9a-f]{4}-[0-9a-f]{4}-[0-9]{6,}")
_NO_CONTROLLER = PciAddress(0, 0, 0, 0)
"""Whose turn it is with devices of no PCI controller, which a few boards have."""


class DesiredUsb(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim requests."""

    name: str
    claimed: bool
    """False once it is being deleted."""
    device: UsbDevice | None
    """None while it is not plugged in."""
    port: str
    """Where it is, or was."""


class UsbClaimController(ClaimController[USBDeviceClaim, DesiredUsb]):
    """Carries out the claims of one node's USB devices. Claims of all nodes are watched."""

    claim = USBDeviceClaim
    finalizer = keys.FINALIZER_USB_CLAIM
    device_kind = "USBDevice"

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[USBDeviceClaim],
        context: Context,
        *,
        device_plugin: DevicePluginController,
        devices: Informer[USBDevice],
    ) -> None:
        super().__init__(node, client, informer, context, device_plugin=device_plugin)
        self._devices = devices

    def concerns(self, stored: USBDeviceClaim) -> bool:
        if stored.status.node_name:
            return stored.status.node_name == self.node
        name = stored.metadata.name
        own = name.removeprefix(f"{self.node}-")
        is_ours = own != name and _OWN.fullmatch(own) is not None
        return is_ours or self._devices.store.get(name) is not None

    # ------------------------------------------------------------------------------------ the
    # desired state

    def wrong_device(self, _stored: USBDeviceClaim) -> Refusal | None:
        return None

    def unreadable(self, stored: USBDeviceClaim) -> str:
        port = stored.status.port
        return "; ".join(one.message for one in self.inventory.errors if one.device == port)

    def is_gone(self, stored: USBDeviceClaim) -> bool:
        return self.desired(stored, stored).device is None

    def desired(self, stored: USBDeviceClaim, _shown: USBDeviceClaim) -> DesiredUsb:
        name = stored.metadata.name
        device = self._seats(stored).devices.get(name)
        return DesiredUsb(
            name=name,
            claimed=stored.metadata.deletion_timestamp is None,
            device=device,
            port=stored.status.port if device is None else device.port,
        )

    def card(self, desired: DesiredUsb) -> PciAddress:
        controller = None if desired.device is None else desired.device.controller
        return controller or _NO_CONTROLLER

    def retry_fingerprint(self, desired: DesiredUsb) -> RetryFingerprint:
        reasons = () if desired.device is None else tuple(judge_usb(desired.device, self.inventory))
        return (
            desired,
            reasons,
            self.device_plugin.device_status(self.device_kind, desired.name).owner,
        )

    def glance(self, desired: DesiredUsb) -> Situation:
        host = self.context.hardware.host
        there = [desired.device] if desired.device else []
        try:
            originals = self.context.hardware.state.usb_originals
        except StateError:
            originals = {}
        seen = super().glance(desired)
        return replace(seen, usb_owners=read_owners(host, there), usb_originals=dict(originals))

    async def look(self, desired: DesiredUsb) -> Situation:
        ports = [desired.device.port] if desired.device else []
        return await observe(self.context.hardware, self.node, (), ports)

    def decide(self, desired: DesiredUsb, situation: Situation) -> Decision:
        if desired.claimed and desired.device is None:
            known = seats(self.inventory, self.node, self.informer.store)
            return (known.missing(desired.name, self.inventory),)
        if desired.device is None:
            return Satisfied()
        if desired.claimed:
            return claim(desired.device, situation)
        return release(desired.device.port, situation)

    def operation_names(self, name: str, desired: DesiredUsb) -> OperationNames:
        if desired.claimed:
            return OperationNames(
                "claim-usb", "Bound", f"USBDeviceClaim {name} claims port {desired.port}"
            )
        return OperationNames("release-usb", "Released", f"USBDeviceClaim {name} is deleted")

    def shares(self, _desired: DesiredUsb) -> tuple[str, ...]:
        return ()

    async def needed_by_others(self, _resource: str, _stored: USBDeviceClaim) -> bool:
        return False  # The name of each device is its own.

    def taken(self, desired: DesiredUsb) -> tuple[str, ...]:
        return (desired.port,) if desired.port else ()

    def forget(self, desired: DesiredUsb) -> None:
        if desired.device is None and desired.port:
            self.context.hardware.state.forget_usb(desired.port)

    # ------------------------------------------------------------------------------------- answers

    def status(self, stored: USBDeviceClaim, answer: Condition | None) -> USBDeviceClaimStatus:
        desired = replace(self.desired(stored, stored), claimed=True)
        device = desired.device
        holds = device is not None and isinstance(self.settled(desired), Satisfied)
        device_status = self.device_plugin.device_status(self.device_kind, desired.name)
        words = f"QEMU may open {device.device_path}." if device else ""
        bound = bound_condition(answer, holds=holds, words=words)
        found = conditions(bound, device_status, answer)
        if device is None:
            return USBDeviceClaimStatus(
                node_name=self.node, allocation=device_status.owner, conditions=found
            )
        return USBDeviceClaimStatus(
            node_name=self.node,
            pci_address="" if device.controller is None else str(device.controller),
            resource_name=device_status.resource,
            vendor_id=device.vendor,
            product_id=device.product,
            port=device.port,
            serial=device.serial,
            device_path=device.device_path,
            allocation=device_status.owner,
            conditions=found,
        )

    def remembering(
        self, stored: USBDeviceClaim, status: USBDeviceClaimStatus
    ) -> USBDeviceClaimStatus:
        known = stored.status
        resource = status.resource_name or known.resource_name
        if status.vendor_id:
            return replace(status, resource_name=resource)
        return replace(
            status,
            pci_address=known.pci_address,
            resource_name=resource,
            vendor_id=known.vendor_id,
            product_id=known.product_id,
            port=known.port,
            serial=known.serial,
        )

    def _seats(self, stored: USBDeviceClaim) -> Seats:
        """As the claims are in the cache, and this one as it is."""
        others = (one for one in self.informer.store if one.metadata.name != stored.metadata.name)
        return seats(self.inventory, self.node, (*others, stored))
