"""What each VF of an NVIDIA GPU can carry and carries, whichever framework serves it.

The framework is decided function by function: one node may hold cards of both kinds, and a VF that
shows no sign of either (no driver, or given away whole) carries nothing. Names are collected card
by card, because a full card lists none.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

import msgspec

from laneway.core.inventory import ConfiguredVgpu, Framework, Inventory, VgpuFunction, VgpuType
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.vgpu.catalogue import profile_name
from laneway.host import mdev, vendor_vfio
from laneway.host.attributes import Attributes, clean
from laneway.host.pci import DEVICES, PciDevice
from laneway.host.port import Host


class _BackEnd(Protocol):
    """The functions that the module of each framework has."""

    def serves(self, vf: Attributes) -> bool: ...

    def read_types(
        self, vf: Attributes, names: dict[str, str]
    ) -> tuple[tuple[VgpuType, ...], tuple[VgpuType, ...]]: ...

    def read_configured(self, vf: Attributes, names: dict[str, str]) -> ConfiguredVgpu | None: ...

    def read_again(
        self, host: Host, home: str, vf: VgpuFunction, *, lists: bool
    ) -> VgpuFunction: ...


_BACK_ENDS: dict[Framework, _BackEnd] = {"mdev": mdev, "vendor-vfio": vendor_vfio}


def read_vgpus(devices: Iterable[PciDevice]) -> list[VgpuFunction]:
    """The VFs that can carry a vGPU, card by card. What is odd goes to their attributes."""
    cards: dict[PciAddress, list[PciDevice]] = defaultdict(list)
    for device in devices:
        if card := card_of(device.function):
            cards[card].append(device)
    return [vgpu for parent, vfs in cards.items() for vgpu in _read_card(parent, vfs)]


def in_order(vgpus: Iterable[VgpuFunction], functions: Iterable[PciFunction]) -> list[VgpuFunction]:
    """The vGPUs' functions sorted by address, each with its number on its card."""
    numbers = _numbers(functions)
    numbered = (
        vgpu
        if vgpu.number == numbers.get(vgpu.address)
        else msgspec.structs.replace(vgpu, number=numbers.get(vgpu.address))
        for vgpu in vgpus
    )
    return sorted(numbered, key=lambda vgpu: vgpu.address)


def card_of(function: PciFunction) -> PciAddress | None:
    """The GPU of a VF that can carry a vGPU; None for anything else."""
    return function.physfn if _may_carry(function) else None


def look_at_card(host: Host, known: Inventory, gpu: PciAddress) -> Inventory | None:
    """The inventory with the vGPUs of one GPU as they are now, everything else as it was.

    Nothing else changes with a vGPU that is made or removed. None where that is not enough to
    know: something about a function could not be read, now or before, or functions came or went.
    """
    vfs = [one for one in known.functions if one.physfn == gpu and _may_carry(one)]
    addresses = {str(vf.address) for vf in vfs}
    if any(error.device in addresses or error.device.startswith("/") for error in known.errors):
        return None
    try:
        devices = [PciDevice(vf, Attributes(host, f"{DEVICES}/{vf.address}", "")) for vf in vfs]
    except OSError:
        return None
    card, numbers = known.identities.get(gpu, ""), _numbers(known.functions)
    seen = [
        msgspec.structs.replace(vgpu, card=card, number=numbers.get(vgpu.address))
        for vgpu in _read_card(gpu, devices)
    ]
    if any(device.attributes.vanished() or device.attributes.errors for device in devices):
        return None
    others = [vgpu for vgpu in known.vgpus if vgpu.parent != gpu]
    vgpus = tuple(sorted([*others, *seen], key=lambda vgpu: vgpu.address))
    return msgspec.structs.replace(known, vgpus=vgpus)


def read_again(host: Host, vgpus: Iterable[VgpuFunction]) -> tuple[VgpuFunction, ...]:
    """Functions of one GPU as they are now, as far as no event tells of a change.

    They are what was given while nothing has changed, at the price of a few reads: functions that
    carry nothing show the same lists, so one is asked. What cannot be read is left as it was.
    """
    vgpus = tuple(vgpus)
    free = next((vgpu for vgpu in vgpus if vgpu.configured is None), None)
    seen = []
    for vgpu in vgpus:
        back_end, home = _BACK_ENDS[vgpu.framework], f"{DEVICES}/{vgpu.address}"
        try:
            seen.append(back_end.read_again(host, home, vgpu, lists=vgpu is free))
        except OSError:
            seen.append(vgpu)
    return tuple(seen)


def read_parameters(host: Host, vgpus: Iterable[VgpuFunction]) -> dict[PciAddress, str]:
    """Parameters of the vGPUs that exist, by function; those that cannot be read are left out."""
    found = {}
    for vgpu in vgpus:
        if vgpu.configured is None:
            continue
        home = f"{DEVICES}/{vgpu.address}"
        below = f"/{vgpu.configured.uuid}" if vgpu.framework == "mdev" else ""
        # A driver that has no parameters for this vGPU, or none any more, answers ENXIO.
        with contextlib.suppress(OSError):
            found[vgpu.address] = clean(host.read(f"{home}{below}/nvidia/vgpu_params"))
    return found


def _numbers(functions: Iterable[PciFunction]) -> dict[PciAddress, int]:
    """Which VF of its card each VF is."""
    return {vf: number for one in functions for number, vf in enumerate(one.vfs)}


def _may_carry(function: PciFunction) -> bool:
    return function.vendor == NVIDIA and function.is_gpu


def _read_card(parent: PciAddress, vfs: list[PciDevice]) -> list[VgpuFunction]:
    names: dict[str, str] = {}
    served = []
    for vf in vfs:
        framework = _framework(vf.attributes)
        if framework:
            types = _BACK_ENDS[framework].read_types(vf.attributes, names)
            served.append((vf, framework, types))
    # Names are complete only now that every sibling has been asked.
    return [
        VgpuFunction(
            address=vf.function.address,
            parent=parent,
            framework=framework,
            supported=supported,
            creatable=creatable,
            configured=configured,
            unreadable=unreadable,
        )
        for vf, framework, (supported, creatable) in served
        for configured, unreadable in [_configured(vf, framework, names)]
    ]


def _configured(
    vf: PciDevice, framework: Framework, names: dict[str, str]
) -> tuple[ConfiguredVgpu | None, str]:
    """What a function carries, or why that is not known."""
    errors = vf.attributes.errors
    before = len(errors)
    found = _named(_BACK_ENDS[framework].read_configured(vf.attributes, names), vf.function.device)
    wrong = "" if found else "; ".join(error.message for error in errors[before:])
    return found, wrong


def _named(vgpu: ConfiguredVgpu | None, device: str) -> ConfiguredVgpu | None:
    """With the catalogue's name where no function of the card gave one."""
    if vgpu is None or vgpu.type_name:
        return vgpu
    return msgspec.structs.replace(vgpu, type_name=profile_name(device, vgpu.type_id))


def _framework(vf: Attributes) -> Framework | None:
    return next((name for name, back_end in _BACK_ENDS.items() if back_end.serves(vf)), None)
