"""The list of devices that the kubelet gets: those of the node that are ready to be allocated.

Nothing is offered that the kernel does not show ready: a claimed function is on vfio-pci, or
carries the vGPU that is desired of it; a claimed USB device is the one that QEMU was given. So the
same look at a node gives the same offers, whatever an agent did before it was killed.

What is ready and was given up (a claim that is being deleted, a vGPU that is to go or to become
another) is listed apart: it is not allocated any more, but may still be in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from laneway.core import names
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.device_plugin.resources import Named, resource_of
from laneway.core.device_plugin.seats import seats_of
from laneway.core.inventory import Inventory, UsbDevice, VgpuFunction
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.refusals import ResourceNameInvalid
from laneway.core.remembered import remembered


class ClaimedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of a PCI function that has the name of the function's PCIDevice."""

    address: PciAddress
    override: str = ""
    """The resource name that the claim requests."""
    pinned: bool = False
    """The function has a resource name of its own."""
    skip_binding: bool = False
    """The function stays on its driver."""
    vendor: str = ""
    device: str = ""
    """Ids of the function that was claimed; empty while it was not observed."""
    leaving: bool = False
    """The claim is being deleted."""


class ClaimedUsb(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of a USB device, and where that device was given to QEMU."""

    name: str
    port: str
    path: str
    """Device node; another one whenever the device was plugged in again."""
    leaving: bool = False
    """The claim is being deleted."""


class DesiredDevices(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects of a node request."""

    functions: tuple[ClaimedFunction, ...] = ()
    usb: tuple[ClaimedUsb, ...] = ()
    """Those whose node is QEMU's."""
    profiles: dict[PciAddress, str] = {}
    """Of the vGPUs that are desired, by function."""
    annotations: dict[PciAddress, str] = {}
    """Resource names that PCIDevices say, by function."""


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """What is ready on a node, sorted, each device once."""

    offered: tuple[Offer, ...] = ()
    leaving: tuple[Offer, ...] = ()
    """Given up, but maybe still in use."""
    refused: dict[str, ResourceNameInvalid] = {}
    """Claimed functions without a valid name, by the PCIDevice's."""


def offers(inventory: Inventory, node: str, desired_states: DesiredDevices) -> Offers:
    """Everything that is ready."""
    found: dict[tuple[str, str], tuple[Offer, bool]] = {}
    refused: dict[str, ResourceNameInvalid] = {}
    known, carriers = inventory.by_address(), inventory.carriers()
    for claim in sorted(desired_states.functions, key=lambda one: (one.address, one.leaving)):
        function, vgpu = known.get(claim.address), carriers.get(claim.address)
        if function is None or function.iommu_group is None or not _ready(claim, function, vgpu):
            continue
        offer = _function(function, vgpu, claim, node, desired_states)
        if isinstance(offer, ResourceNameInvalid):
            refused[names.pci_object_name(node, claim.address)] = offer
        else:
            given_up = claim.leaving or _is_not_desired(vgpu, desired_states)
            found.setdefault((offer.kind, offer.id), (offer, given_up))
    for vgpu in _mdevs(inventory.vgpus):
        if mdev := _mdev(vgpu, known.get(vgpu.address), node):
            found.setdefault((mdev.kind, mdev.id), (mdev, _is_not_desired(vgpu, desired_states)))
    for offer, given_up in _usb(inventory.usb, desired_states.usb):
        found.setdefault((offer.kind, offer.id), (offer, given_up))
    seats = seats_of(inventory)
    for key, (offer, given_up) in found.items():
        if offer.address in seats:
            seat = seats[offer.address]
            found[key] = (msgspec.structs.replace(offer, seat=seat), given_up)
    return Offers(
        offered=_sorted(offer for offer, given_up in found.values() if not given_up),
        leaving=_sorted(offer for offer, given_up in found.values() if given_up),
        refused=refused,
    )


def vgpu_profile(vgpu: VgpuFunction | None) -> str:
    """Profile of the vGPU that a function carries as a PCI function; empty where it does not."""
    if vgpu is None or vgpu.configured is None or vgpu.framework != "vendor-vfio":
        return ""
    return vgpu.configured.type_name


def named(
    function: PciFunction,
    vgpu: VgpuFunction | None,
    node: str,
    annotation: str,
    claim: ClaimedFunction | None,
) -> Named:
    """What decides about the name of a function."""
    return Named(
        name=names.pci_object_name(node, function.address),
        profile=vgpu_profile(vgpu),
        claimed_as="" if claim is None else claim.override,
        pinned=claim is not None and claim.pinned,
        annotation=annotation,
        carries=vgpu is not None,
    )


def _ready(claim: ClaimedFunction, function: PciFunction, vgpu: VgpuFunction | None) -> bool:
    if (claim.vendor or function.vendor, claim.device or function.device) != (
        function.vendor,
        function.device,
    ):
        return False  # Another card is in its place, and it is on vfio-pci for another reason.
    if claim.skip_binding and vgpu_profile(vgpu):
        return True
    return function.driver == VFIO_DRIVER


def _is_not_desired(vgpu: VgpuFunction | None, desired_states: DesiredDevices) -> bool:
    """Whether a function carries another vGPU than it should."""
    current = vgpu.configured if vgpu else None
    return (
        vgpu is not None
        and current is not None
        and desired_states.profiles.get(vgpu.address) != current.type_name
    )


def _function(
    function: PciFunction,
    vgpu: VgpuFunction | None,
    claim: ClaimedFunction,
    node: str,
    desired_states: DesiredDevices,
) -> Offer | ResourceNameInvalid:
    annotation = desired_states.annotations.get(function.address, "")
    facts = named(function, vgpu, node, annotation, claim)
    resource = resource_of(function, facts)
    if isinstance(resource, ResourceNameInvalid):
        return resource
    return Offer(
        resource=resource,
        id=str(function.address),
        form=Form.PCI,
        kind="PCIDevice",
        name=facts.name,
        address=function.address,
        card=function.physfn or function.address,
        group=function.iommu_group,
        numa_node=function.numa_node,
    )


@remembered
def _mdevs(vgpus: tuple[VgpuFunction, ...]) -> tuple[VgpuFunction, ...]:
    """Those that carry a mediated device."""
    return tuple([one for one in vgpus if one.framework == "mdev" and one.configured])


def _mdev(vgpu: VgpuFunction, function: PciFunction | None, node: str) -> Offer | None:
    current = vgpu.configured
    if not current or not (current.uuid and current.type_name):
        return None
    return Offer(
        resource=names.vgpu_resource_name(current.type_name),
        id=current.uuid,
        form=Form.MDEV,
        kind="VGPUDevice",
        name=names.pci_object_name(node, vgpu.address),
        address=vgpu.address,
        card=vgpu.parent,
        group=current.iommu_group,
        numa_node=function.numa_node if function else None,
    )


def _usb(
    devices: Iterable[UsbDevice], claims: Iterable[ClaimedUsb]
) -> Iterator[tuple[Offer, bool]]:
    there = {(device.port, device.device_path): device for device in devices}
    for claim in claims:
        if device := there.get((claim.port, claim.path)):
            offer = Offer(
                resource=names.usb_resource_name(claim.name),
                id=claim.name,
                form=Form.USB,
                kind="USBDevice",
                name=claim.name,
                usb=(device.bus, device.number),
            )
            yield offer, claim.leaving


def _sorted(found: Iterable[Offer]) -> tuple[Offer, ...]:
    return tuple(sorted(found, key=lambda one: (one.resource, one.address or (), one.id)))
