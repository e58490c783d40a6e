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

from laneway.core.catalogue import profile_name
from laneway.core.inventory import ConfiguredVgpu, Framework, VgpuFunction, VgpuType
from laneway.core.pci import NVIDIA, PciAddress
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
    """Every VF that can carry a vGPU, sorted by address. What is odd goes to its attributes."""
    cards: dict[PciAddress, list[PciDevice]] = defaultdict(list)
    numbers: dict[PciAddress, int] = {}
    for device in devices:
        function = device.function
        numbers |= {vf: number for number, vf in enumerate(function.vfs)}
        if function.physfn and function.vendor == NVIDIA and function.is_gpu:
            cards[function.physfn].append(device)
    vgpus = (
        msgspec.structs.replace(vgpu, number=numbers.get(vgpu.address))
        for parent, vfs in cards.items()
        for vgpu in _read_card(parent, vfs)
    )
    return sorted(vgpus, key=lambda vgpu: vgpu.address)


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
            configured=_named(
                _BACK_ENDS[framework].read_configured(vf.attributes, names), vf.function.device
            ),
        )
        for vf, framework, (supported, creatable) in served
    ]


def _named(vgpu: ConfiguredVgpu | None, device: str) -> ConfiguredVgpu | None:
    """With the catalogue's name where no function of the card gave one."""
    if vgpu is None or vgpu.type_name:
        return vgpu
    return msgspec.structs.replace(vgpu, type_name=profile_name(device, vgpu.type_id))


def _framework(vf: Attributes) -> Framework | None:
    return next((name for name, back_end in _BACK_ENDS.items() if back_end.serves(vf)), None)
