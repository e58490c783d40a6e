"""USBDevice, which only observes, and USBDeviceClaim, which makes one available to VMs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from laneway.api.allocation import Allocation
from laneway.api.fields import API_VERSION, OnNode, ResourceName, UserName
from laneway.api.meta import ObjectMeta, Status

USB_ORPHANED = "orphaned"
"""`USBDevice.status.status` of a claimed device that is no longer plugged in; else empty."""


class USBDeviceStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the node's kernel shows of the device."""

    vendor_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = field(
        default="", name="vendorID"
    )
    product_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = field(
        default="", name="productID"
    )
    node_name: OnNode = ""
    resource_name: ResourceName = ""
    device_path: Annotated[str, Meta(description="Device node: /dev/bus/usb/BBB/DDD.")] = ""
    description: Annotated[str, Meta(description="Vendor and product in words.")] = ""
    pci_address: Annotated[str, Meta(description="PCI address of the USB controller.")] = ""
    class_type: Annotated[str, Meta(description="USB class in words.")] = ""
    enabled: Annotated[bool, Meta(description="VMs can use the device.")] = field(
        default_factory=bool
    )
    status: Annotated[
        str, Meta(description="orphaned when a claimed device is gone, else empty.")
    ] = ""
    message: Annotated[str, Meta(description="What to do about the status.")] = ""
    port: Annotated[
        str, Meta(description="Where it is plugged in: bus and port path, for example 3-1.2.")
    ] = ""
    serial: Annotated[str, Meta(description="Serial number that the device reports, if any.")] = ""


class USBDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A USB device of a node."""

    api_version: str = API_VERSION
    kind: str = "USBDevice"
    metadata: ObjectMeta = ObjectMeta()
    status: USBDeviceStatus = USBDeviceStatus()


class USBDeviceClaimSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The user who claims the device."""

    user_name: UserName = ""


class USBDeviceClaimStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The claimed device."""

    node_name: OnNode = ""
    pci_address: Annotated[str, Meta(description="PCI address of the USB controller.")] = ""
    resource_name: ResourceName = ""
    vendor_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = field(
        default="", name="vendorID"
    )
    product_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = field(
        default="", name="productID"
    )
    port: Annotated[str, Meta(description="Where the claimed device is plugged in.")] = ""
    serial: Annotated[str, Meta(description="Serial number of the claimed device, if any.")] = ""
    device_path: Annotated[str, Meta(description="Device node: /dev/bus/usb/BBB/DDD.")] = ""
    allocation: Annotated[
        Allocation | None,
        Meta(description="The pod and VM that hold the device; absent while none does."),
    ] = None


class USBDeviceClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Makes the USB device of the same name available to VMs."""

    api_version: str = API_VERSION
    kind: str = "USBDeviceClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: USBDeviceClaimSpec = USBDeviceClaimSpec()
    status: USBDeviceClaimStatus = USBDeviceClaimStatus()
