"""One device as a kubelet may hand it to a container.

An offer says what hardware is, not what Laneway did to it: it is made again from every look at the
node, so a plugin that was killed offers after its restart exactly what is there then.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from laneway.core.pci import PciAddress


class Form(StrEnum):
    """How a container gets at a device."""

    PCI = "pci"
    """A function on vfio-pci, or one with a vGPU of the vendor's VFIO framework."""
    MDEV = "mdev"
    """A mediated device."""
    USB = "usb"
    """A USB device's node."""


class Seat(msgspec.Struct, frozen=True):
    """Where a vGPU is on a GPU whose vGPUs may differ in size."""

    device: str
    """PCI device id of the GPU."""
    profile: str
    start: int
    """Its first memory slot."""
    others: tuple[tuple[str, int], ...] = ()
    """vGPUs of other profiles on the GPU, with their first slots."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A device under the name by which pods request it."""

    resource: str
    """`nvidia.com/NVIDIA_A2-2Q`"""
    id: str
    """The kubelet's device id: PCI address, UUID of the mediated device, or USBDevice's name."""
    form: Form
    kind: str
    """Of the object that stands for it: PCIDevice, VGPUDevice or USBDevice."""
    name: str
    """Of that object."""
    address: PciAddress | None = None
    """The function; that which carries the mediated device. None for USB."""
    card: PciAddress | None = None
    """The physical function whose card this is, itself for a whole device. None for USB."""
    group: int | None = None
    """IOMMU group. Only one pod can use a group."""
    numa_node: int | None = None
    """None where the kernel knows none."""
    usb: tuple[int, int] | None = None
    """Bus and device number."""
    seat: Seat | None = None
    """None where it is no such vGPU, or where its place is not known."""
    unhealthy: str = ""
    """Why it cannot be allocated now, in words; empty: it can."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The container to which the kubelet gave a device."""

    namespace: str
    pod: str
    container: str = ""
