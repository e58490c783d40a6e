"""USBDevice: every USB device of the node that is not a root hub."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import Condition, ObjectMeta, Status, USBDevice, USBDeviceStatus
from laneway.controllers.devices.family import Family, ready, unreadable
from laneway.core import ids, keys, names, usability
from laneway.core.inventory import Inventory, UsbDevice
from laneway.host.paths import is_usb_port


def wanted(inventory: Inventory, node: str) -> Mapping[str, USBDevice]:
    """One object per device, named by its ids and where it is plugged in."""
    objects = {}
    for device in inventory.usb:
        name = names.usb_object_name(node, device.vendor, device.product, device.bus, device.number)
        objects[name] = USBDevice(
            metadata=ObjectMeta(name=name, labels={keys.LABEL_NODE: node}),
            status=_status(name, device, inventory, node),
        )
    return objects


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
        conditions=[
            ready("Observed", "The status is what the kernel shows."),
            Condition(
                type="Claimable",
                status="True" if claimable else "False",
                reason="Free" if claimable else reasons[0].kind.value,
                message=usability.short(reasons) or "Nothing on the node needs it.",
            ),
        ],
    )


def status(stored: USBDevice, wanted: USBDevice) -> Status:
    """Observation replaces observation; what a claim wrote (`enabled`, `status`) stays."""
    return msgspec.structs.replace(
        wanted.status,
        enabled=stored.status.enabled,
        status=stored.status.status,
        message=stored.status.message,
    )


def keep(stored: USBDevice, inventory: Inventory) -> bool:
    """A claimed device that was pulled out stays, and its claim says so; others go.

    An object does not know its port, so a port that cannot be read keeps every object.
    """
    failed = any(is_usb_port(error.device) for error in inventory.errors)
    return stored.status.enabled or failed or unreadable(inventory, ())


FAMILY = Family(USBDevice, wanted, status, keep)
