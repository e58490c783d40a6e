"""One device of a node, in the terms by which claims choose.

Names say where a device is, so that the same device has the same name after every restart.
Attributes in Kubernetes' own domain have the meaning that Kubernetes gives them; the others are of
Laneway's, among them `mdevUUID`, which KubeVirt reads of a mediated device.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeGuard, assert_never

import msgspec

from laneway.core import ids
from laneway.core.device_plugin.offer import Form, Offer, Owner
from laneway.core.inventory import Inventory
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.profiles import framebuffer_mib

DRIVER = "laneway.devices.harvesterhci.io"
"""Whose devices they are, for classes and claims."""
TAINT_HELD = "devices.harvesterhci.io/held"
"""A pod has the device, or what excludes it, from a device plugin; the value is its name."""
TAINT_UNHEALTHY = "devices.harvesterhci.io/unhealthy"
"""It cannot be allocated now."""

Value = str | int
"""Of an attribute."""

_LABEL_VALUE = re.compile("[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_STANDARD = "resource.kubernetes.io"
_TEXT_MAX = 64
_LABEL_MAX = 63
_MIB_PER_GIB = 1024


class Taint(msgspec.Struct, frozen=True):
    """Why a claim that does not put up with it cannot have a device."""

    key: str
    value: str = ""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What one slice says of one device."""

    name: str
    attributes: Mapping[str, Value]
    memory: str = ""
    """A quantity; empty where it is not known."""
    taints: tuple[Taint, ...] = ()


def device(offer: Offer, inventory: Inventory, owner: Owner | None) -> Device:
    """What is said of an offered device."""
    taints = []
    if owner is not None:
        name = owner.pod[:_LABEL_MAX].rstrip("-.")
        taints.append(Taint(TAINT_HELD, name if _LABEL_VALUE.fullmatch(name) else ""))
    if offer.unhealthy:
        taints.append(Taint(TAINT_UNHEALTHY))
    function = inventory.function(offer.address) if offer.address is not None else None
    return Device(
        name=device_name(offer),
        attributes=_attributes(offer, function, inventory),
        memory=_memory(offer, function, inventory),
        taints=tuple(taints),
    )


def device_name(offer: Offer) -> str:
    """Unique on the node, and a DNS label: `pci-0000-08-00-4`."""
    match offer.form:
        case Form.PCI:
            where = str(offer.address) if offer.address is not None else offer.id
            wanted = f"pci-{where}"
        case Form.MDEV:
            wanted = f"mdev-{offer.id}"
        case Form.USB:
            wanted = "usb-" + (f"{offer.usb[0]:03d}-{offer.usb[1]:03d}" if offer.usb else offer.id)
        case _:
            assert_never(offer.form)
    label = re.sub("[^a-z0-9]+", "-", wanted.lower()).strip("-")
    if len(label) <= _LABEL_MAX:
        return label
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:10]
    return f"{label[: _LABEL_MAX - 11].rstrip('-')}-{digest}"


def _attributes(
    offer: Offer, function: PciFunction | None, inventory: Inventory
) -> dict[str, Value]:
    found: dict[str, Value | None] = {
        "form": offer.form.value,
        "resourceName": offer.resource,
        "object": offer.name,
        "iommuGroup": offer.group,
        f"{_STANDARD}/numaNode": offer.numa_node,
    }
    if offer.form is Form.MDEV:
        found["mdevUUID"] = offer.id
    elif offer.form is Form.PCI and offer.address is not None:
        found[f"{_STANDARD}/pciBusID"] = str(offer.address)
    if offer.card is not None and offer.card != offer.address:
        found["parentPCIAddress"] = str(offer.card)
    elif offer.form is Form.MDEV and offer.address is not None:
        found["parentPCIAddress"] = str(offer.address)
    if offer.usb is not None:
        found["usbBus"], found["usbDevice"] = offer.usb
    if function is not None:
        found["vendorID"], found["deviceID"] = function.vendor, function.device
        found["productName"] = ids.pci_device(function.vendor, function.device)
        found[f"{_STANDARD}/pcieRoot"] = pcie_root(function, inventory)
        vgpu = inventory.vgpu(function.address)
        if vgpu is not None and vgpu.configured is not None:
            found["profile"] = vgpu.configured.type_name
    return {key: value for key, value in sorted(found.items()) if _can_be_said(value)}


def _can_be_said(value: Value | None) -> TypeGuard[Value]:
    """A text that is too long says nothing rather than something else."""
    if isinstance(value, str):
        return 0 < len(value.encode()) <= _TEXT_MAX
    return value is not None


def pcie_root(function: PciFunction, inventory: Inventory) -> str:
    """The root complex, `pci0000:00`; empty where not all bridges up to it are known."""
    seen: set[PciAddress] = set()
    while function.upstream is not None:
        above = inventory.function(function.upstream)
        if above is None or above.address in seen:
            return ""
        seen.add(above.address)
        function = above
    return f"pci{function.address.domain:04x}:{function.address.bus:02x}"


def _memory(offer: Offer, function: PciFunction | None, inventory: Inventory) -> str:
    if function is None or function.vendor != NVIDIA:
        return ""
    vgpu = inventory.vgpu(function.address)
    if vgpu is not None and vgpu.configured is not None:
        mib = framebuffer_mib(vgpu.configured.type_name)
    elif offer.form is Form.PCI and function.physfn is None:
        mib = _whole(function.device, function.subsystem_device)
    else:
        mib = 0
    if not mib:
        return ""
    return f"{mib // _MIB_PER_GIB}Gi" if mib % _MIB_PER_GIB == 0 else f"{mib}Mi"


@lru_cache(maxsize=64)
def _whole(board: str, subsystem: str) -> int:
    """Memory of a whole GPU, as far as its largest profile tells."""
    return max((one.framebuffer_mib for one in profiles_of(board, subsystem)), default=0)
