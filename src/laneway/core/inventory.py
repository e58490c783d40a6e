"""What one look at a node found: the immutable observation that every decision starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.remembered import remembered

Framework = Literal["mdev", "vendor-vfio"]


class VgpuType(msgspec.Struct, frozen=True):
    """A profile that the driver offers on one function."""

    id: str
    """As written to the driver: `nvidia-742` (mdev), `1145` (vendor VFIO)."""
    name: str
    """As the driver prints it, `NVIDIA A2-4Q`. The only stable name of a profile."""


class ConfiguredVgpu(msgspec.Struct, frozen=True):
    """The vGPU that exists on a function."""

    type_id: str
    type_name: str
    """Empty when neither the driver nor the catalogue knows the id."""
    uuid: str = ""
    """mdev only."""
    iommu_group: int | None = None
    placement: int | None = None
    """First memory slot, counted inside its GPU instance where it has one; None: not reported."""
    gpu_instance: int | None = None
    """Id of the GPU instance that it is in."""


class VgpuFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A VF that can carry a vGPU."""

    address: PciAddress
    parent: PciAddress
    framework: Framework
    supported: tuple[VgpuType, ...]
    """Every type listed, creatable or not (vendor VFIO lists only creatable ones)."""
    creatable: tuple[VgpuType, ...]
    """What the driver would accept on this function now."""
    configured: ConfiguredVgpu | None = None
    unreadable: str = ""
    """Why it is not known whether it carries a vGPU; empty when it is."""
    card: str = ""
    """UUID of the GPU; empty while the driver does not tell it."""
    number: int | None = None
    """Which of the GPU's VFs it is, as in `virtfn0`; None when the GPU does not list it."""


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface whose hardware is a PCI function."""

    name: str
    address: PciAddress
    mac: str = ""


class InterfaceAddress(msgspec.Struct, frozen=True):
    """An address of a network interface."""

    interface: str
    address: str
    """With the length of its prefix, `10.9.0.5/24`."""
    link_local: bool = False
    """IPv6 of link scope, which the kernel gives to every interface that is up."""


class UsbDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A USB device that is not a root hub."""

    port: str
    """sysfs name, `3-1.2`: bus and port path, stable while it stays plugged where it is."""
    vendor: str
    product: str
    bus: int
    number: int
    class_code: str
    """`bDeviceClass`, or the first interface's class where that is `00`; two hex digits."""
    product_name: str = ""
    serial: str = ""
    device_path: str = ""
    """`/dev/bus/usb/BBB/DDD`"""
    controller: PciAddress | None = None


class DeviceError(msgspec.Struct, frozen=True):
    """A device, or a part of one, that could not be read; the rest of the scan is complete."""

    device: str
    """PCI address, USB port or path."""
    message: str


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """One complete scan. Tuples are sorted by address (functions, vGPUs) or port (USB)."""

    functions: tuple[PciFunction, ...] = ()
    vgpus: tuple[VgpuFunction, ...] = ()
    interfaces: tuple[NetworkInterface, ...] = ()
    usb: tuple[UsbDevice, ...] = ()
    critical: dict[PciAddress, tuple[str, ...]] = {}
    """Functions the node cannot do without, each with the reasons in words."""
    critical_usb: dict[str, tuple[str, ...]] = {}
    """The same for USB devices, by port."""
    displays: dict[PciAddress, tuple[str, ...]] = {}
    """Functions that show the node's console, which can do without, each with what it shows."""
    identities: dict[PciAddress, str] = {}
    """UUIDs of NVIDIA GPUs as the driver tells them, which no other slot changes."""
    modes: dict[PciAddress, GpuModes] = {}
    """NVIDIA GPUs that could be asked, as they were when they were asked last."""
    unasked: dict[PciAddress, str] = {}
    """NVIDIA GPUs that could not be asked, and why."""
    nvidia_driver: str = ""
    """Version of the loaded NVIDIA host driver, empty when none is."""
    errors: tuple[DeviceError, ...] = ()

    def function(self, address: PciAddress) -> PciFunction | None:
        """The PCI function at an address."""
        return self.by_address().get(address)

    def by_address(self) -> Mapping[PciAddress, PciFunction]:
        """All functions by their addresses, in numeric order."""
        return _by_address(self.functions)

    def vgpu(self, address: PciAddress) -> VgpuFunction | None:
        """The function at an address, if it can carry a vGPU."""
        return self.carriers().get(address)

    def carriers(self) -> Mapping[PciAddress, VgpuFunction]:
        """All functions that can carry a vGPU by their addresses, in numeric order."""
        return _carriers(self.vgpus)

    def vgpus_of(self, gpu: PciAddress) -> tuple[VgpuFunction, ...]:
        """The functions of a GPU that can carry a vGPU, in numeric order."""
        return self.by_gpu().get(gpu, ())

    def by_gpu(self) -> Mapping[PciAddress, tuple[VgpuFunction, ...]]:
        """All functions that can carry a vGPU, in numeric order, by their GPU."""
        return _by_gpu(self.vgpus)

    def unread_gpus(self) -> dict[PciAddress, str]:
        """GPUs of which it is not known what they carry, and why."""
        found: dict[PciAddress, str] = {}
        for one in self.vgpus:
            if one.unreadable:
                found.setdefault(one.parent, f"{one.address}: {one.unreadable}")
        return found

    def sharing(self, before: Inventory) -> Inventory:
        """The same, of which each part that equals that of an inventory before is that very part.

        So what depends on a part alone need not be worked out again, nor even compared.
        """
        parts = {}
        for name in self.__struct_fields__:
            was, now = getattr(before, name), getattr(self, name)
            if was is not now and was == now:
                parts[name] = was
        return msgspec.structs.replace(self, **parts) if parts else self


@remembered
def _by_address(functions: tuple[PciFunction, ...]) -> Mapping[PciAddress, PciFunction]:
    return {one.address: one for one in functions}


@remembered
def _carriers(vgpus: tuple[VgpuFunction, ...]) -> Mapping[PciAddress, VgpuFunction]:
    return {one.address: one for one in vgpus}


@remembered
def _by_gpu(vgpus: tuple[VgpuFunction, ...]) -> Mapping[PciAddress, tuple[VgpuFunction, ...]]:
    found: dict[PciAddress, list[VgpuFunction]] = {}
    for one in vgpus:
        found.setdefault(one.parent, []).append(one)
    return {gpu: tuple(functions) for gpu, functions in found.items()}
