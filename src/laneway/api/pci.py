"""PCIDevice, which observes, and PCIDeviceClaim, which makes one available to VMs.

The boolean fields of the contract have `default_factory=bool` where a plain `False` would do,
because encoding leaves out plain defaults and users expect to read `false`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, field

from laneway.api.allocation import Allocation
from laneway.api.fields import (
    API_VERSION,
    Address,
    NodeName,
    OnNode,
    ResourceName,
    UserName,
    Workload,
)
from laneway.api.meta import ObjectMeta, Status


class PCIDeviceBar(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """One memory or port range of a PCI function."""

    index: Annotated[int, Meta(description="Line in the kernel's resource file, from 0.")]
    size: Annotated[int, Meta(description="Bytes.")]
    prefetchable: Annotated[bool, Meta(description="Reads have no side effect.")] = False
    wide: Annotated[bool, Meta(description="64-bit: may need the large MMIO window.")] = False
    io: Annotated[bool, Meta(description="Port range instead of memory.")] = False


class PCIDeviceLink(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """PCI Express link."""

    speed: Annotated[str, Meta(description="Now, for example 16.0 GT/s PCIe.")] = ""
    width: Annotated[int, Meta(description="Lanes in use.")] = 0
    max_speed: Annotated[str, Meta(description="What the device can do.")] = ""
    max_width: Annotated[int, Meta(description="Lanes that the device has.")] = 0


class PCIDeviceSriov(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """SR-IOV capability of a physical function."""

    total_vfs: Annotated[int, Meta(description="Virtual functions it can have.")] = field(
        name="totalVFs"
    )
    num_vfs: Annotated[int, Meta(description="Virtual functions it has now.")] = field(
        name="numVFs"
    )


class PCIDeviceSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Whom a GPU serves; of any other device there is no desired state."""

    workload: Workload = ""


class PCIDeviceStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the node's kernel shows of the function."""

    address: Annotated[str, Meta(description="PCI address, domain:bus:device.function.")] = ""
    vendor_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = ""
    device_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = ""
    class_id: Annotated[
        str, Meta(description="Class and subclass, four lower-case hex digits.")
    ] = ""
    iommu_group: Annotated[
        str, Meta(description="IOMMU group number as text; empty when there is none.")
    ] = ""
    node_name: OnNode = ""
    resource_name: ResourceName = ""
    description: Annotated[str, Meta(description="Class, vendor and product in words.")] = ""
    kernel_driver_in_use: Annotated[str, Meta(description="Driver that holds it now.")] = ""

    subsystem_vendor_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = ""
    subsystem_device_id: Annotated[str, Meta(description="Four lower-case hex digits.")] = ""
    numa_node: Annotated[
        int | None, Meta(description="NUMA node; absent when the kernel knows none.")
    ] = None
    iommu_group_members: Annotated[
        Sequence[str],
        Meta(description="Addresses of all functions in the IOMMU group, this one included."),
    ] = []
    sriov: Annotated[
        PCIDeviceSriov | None, Meta(description="Absent without SR-IOV capability.")
    ] = None
    physical_function: Annotated[
        str, Meta(description="Address of the physical function, on a virtual one.")
    ] = ""
    reset_methods: Annotated[
        Sequence[str], Meta(description="Ways to reset the function, in the kernel's order.")
    ] = []
    bars: Annotated[Sequence[PCIDeviceBar], Meta(description="Ranges that have a size.")] = []
    link: Annotated[
        PCIDeviceLink | None, Meta(description="Absent where the kernel reports no link.")
    ] = None
    boot_vga: Annotated[bool, Meta(description="The firmware's console runs on this function.")] = (
        field(default=False, name="bootVGA")
    )
    claimable: Annotated[
        bool | None, Meta(description="Whether it may be claimed; absent until it was decided.")
    ] = None
    critical: Annotated[
        Sequence[str], Meta(description="Why the node cannot do without it; then not claimable.")
    ] = []


class PCIDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A PCI function of a node."""

    api_version: str = API_VERSION
    kind: str = "PCIDevice"
    metadata: ObjectMeta = ObjectMeta()
    spec: PCIDeviceSpec = PCIDeviceSpec()
    status: PCIDeviceStatus = PCIDeviceStatus()


class PCIDeviceClaimSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The device to claim, and the user."""

    address: Address = ""
    node_name: NodeName = ""
    user_name: UserName = ""
    disable_resource_pooling: Annotated[
        bool, Meta(description="Give this device a resource name of its own.")
    ] = False


class PCIDeviceClaimStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The state of the claimed device."""

    kernel_driver_to_unbind: Annotated[
        str, Meta(description="Driver to which the device returns on release.")
    ] = ""
    passthrough_enabled: Annotated[bool, Meta(description="VMs can use the device.")] = field(
        default_factory=bool
    )
    resource_name: ResourceName = ""
    vendor_id: Annotated[str, Meta(description="Of the device, four lower-case hex digits.")] = ""
    device_id: Annotated[str, Meta(description="Of the device, four lower-case hex digits.")] = ""
    gpu_uuid: Annotated[str, Meta(description="UUID of a claimed GPU, the same in any slot.")] = (
        field(default="", name="gpuUUID")
    )
    iommu_group: Annotated[str, Meta(description="IOMMU group of the claimed device, as text.")] = (
        ""
    )
    allocation: Annotated[
        Allocation | None,
        Meta(description="The pod and VM that hold the device; absent while none does."),
    ] = None


class PCIDeviceClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Makes a PCI device available to VMs."""

    api_version: str = API_VERSION
    kind: str = "PCIDeviceClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PCIDeviceClaimSpec = PCIDeviceClaimSpec()
    status: PCIDeviceClaimStatus = PCIDeviceClaimStatus()
