"""The devices that a VM means, by name or by the resource alone.

An entry of a VM names a device when an object bears its name and goes by the resource that the
entry requests. Any other name is free text: a VM with it gets any device of the resource, which
is what Rancher's VMs rely on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from laneway.admission.world import MEDIATED, RESOURCE, World
from laneway.api import PCIDevice, PCIDeviceClaim, USBDevice, USBDeviceClaim, VGPUDevice
from laneway.core import names, phrases
from laneway.kube.kubevirt import DeviceRequest, Devices
from laneway.kube.resource import KubeObject
from laneway.kube.store import Store

_COMPARED = 256


@dataclass(frozen=True, slots=True)
class Found:
    """The objects of one name, which are about one device."""

    name: str
    pci: PCIDevice | None = None
    claim: PCIDeviceClaim | None = None
    vgpu: VGPUDevice | None = None
    usb: USBDevice | None = None
    usb_claim: USBDeviceClaim | None = None

    @property
    def title(self) -> str:
        """`pcidevice/node1-000008000`."""
        if self.is_usb:
            return f"usbdevice/{self.name}"
        return f"{'vgpu' if self.pci is None and self.claim is None else 'pci'}device/{self.name}"

    @property
    def place(self) -> str:
        """Node and address of a PCI device, `node1/0000:08:00.0`; empty for others."""
        status = None if self.pci is None else self.pci.status
        return f"{status.node_name}/{status.address}" if status and status.node_name else ""

    @property
    def is_usb(self) -> bool:
        return self.pci is None and self.claim is None and self.vgpu is None

    @property
    def is_mediated(self) -> bool:
        """Whether it is a vGPU that no claim is about."""
        return self.vgpu is not None and self.vgpu.status.framework == MEDIATED

    @property
    def node(self) -> str:
        """Empty where it is not said."""
        reported = (
            self.pci.status.node_name if self.pci else "",
            self.claim.spec.node_name if self.claim else "",
            self.vgpu.spec.node_name if self.vgpu else "",
            self.usb.status.node_name if self.usb else "",
            self.usb_claim.status.node_name if self.usb_claim else "",
        )
        return next(filter(None, reported), "")

    @property
    def resources(self) -> tuple[str, ...]:
        """The names that it goes by, the one in effect first, what a vGPU is to be last."""
        reported = (
            self.claim.status.resource_name if self.claim else "",
            resource_of(self.vgpu) if self.vgpu else "",
            self.pci.status.resource_name if self.pci else "",
            self.usb_claim.status.resource_name if self.usb_claim else "",
            self.usb.status.resource_name if self.usb else "",
            _desired(self.vgpu) if self.vgpu else "",
        )
        return tuple(dict.fromkeys(filter(None, reported)))


def find(world: World, name: str) -> Found | None:
    """What is known under a name."""
    found = Found(
        name,
        world.pci_devices.get(name),
        world.claims.get(name),
        world.vgpus.get(name),
        world.usb_devices.get(name),
        world.usb_claims.get(name),
    )
    known = (found.pci, found.claim, found.vgpu, found.usb, found.usb_claim)
    return found if any(one is not None for one in known) else None


def named(world: World, request: DeviceRequest) -> Found | None:
    """The device that an entry names."""
    found = find(world, request.name)
    return found if found is not None and request.device_name in found.resources else None


def resource_of(vgpu: VGPUDevice) -> str:
    """By what VMs request the vGPU that is there; empty while there is none."""
    status = vgpu.status
    profile = status.configure_vgpu_type_name
    return status.resource_name or (names.vgpu_resource_name(profile) if profile else "")


def _desired(vgpu: VGPUDevice) -> str:
    """By what VMs request the vGPU that is to be there."""
    profile = vgpu.spec.vgpu_type_name
    return names.vgpu_resource_name(profile) if profile else ""


def is_known(world: World, resource: str) -> bool:
    """Whether any device goes by a resource name."""
    return any(store.first(RESOURCE, resource) is not None for store in _stores(world))


def is_usb(world: World, resource: str) -> bool:
    """Whether only USB devices go by a resource name."""
    known = [store for store in _stores(world) if store.first(RESOURCE, resource) is not None]
    return bool(known) and all(one in (world.usb_devices, world.usb_claims) for one in known)


def closest(world: World, resource: str) -> tuple[str, ...]:
    """The resources that are spelt most like one that there is not."""
    names = (str(name) for store in _stores(world) for name in store.values(RESOURCE))
    # Each device may have a name of its own, and to compare thousands takes a second.
    return phrases.closest(resource, islice(names, _COMPARED))


def _stores(world: World) -> tuple[Store[KubeObject], ...]:
    return world.pci_devices, world.claims, world.vgpus, world.usb_devices, world.usb_claims


def counted(requests: Iterable[DeviceRequest]) -> dict[str, int]:
    """How many of each resource; what comes from a resource claim is the scheduler's business."""
    return Counter(one.device_name for one in requests if one.device_name)


def added(new: Devices, old: Devices) -> Iterator[DeviceRequest]:
    """The entries that were not there before."""
    before = Counter(_identity(one) for one in old.all)
    for one in new.all:
        if before[_identity(one)] > 0:
            before[_identity(one)] -= 1
        else:
            yield one


def asks_alike(one: Devices, other: Devices) -> bool:
    """Whether both get the same, whatever they call it and whatever of it they show."""
    ours, theirs = (
        Counter((entry.device_name, entry.claim_name, entry.request_name) for entry in devices.all)
        for devices in (one, other)
    )
    return ours == theirs


def _identity(request: DeviceRequest) -> tuple[str, str, str, str]:
    return request.name, request.device_name, request.claim_name, request.request_name
