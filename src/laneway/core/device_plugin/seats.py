"""Where vGPUs are on GPUs in mixed-size mode, as far as it matters who gets which of them.

A GPU counts only where the places of all its vGPUs are known: the room around one depends on all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from laneway.core.device_plugin.offer import Seat
from laneway.core.inventory import ConfiguredVgpu, Inventory
from laneway.core.pci import PciAddress

_Carried = tuple[PciAddress, ConfiguredVgpu]


def seats_of(inventory: Inventory) -> Mapping[PciAddress | None, Seat]:
    """By the function that carries the vGPU."""
    mixed = {gpu for gpu, modes in inventory.modes.items() if modes.mixed_size}
    if not mixed:
        return {}
    carried: dict[PciAddress, list[_Carried]] = {}
    for vgpu in inventory.vgpus:
        if vgpu.parent in mixed and vgpu.configured is not None:
            carried.setdefault(vgpu.parent, []).append((vgpu.address, vgpu.configured))
    devices = {one.address: one.device for one in inventory.functions if one.address in carried}
    return {
        address: seat
        for gpu, vgpus in carried.items()
        if gpu in devices
        for address, seat in _seats(devices[gpu], vgpus)
    }


def _seats(device: str, vgpus: Sequence[_Carried]) -> Iterator[tuple[PciAddress, Seat]]:
    placed = [
        (address, one.type_name, one.placement)
        for address, one in vgpus
        if one.placement is not None and one.gpu_instance is None
    ]
    if len(placed) < len(vgpus):
        return
    for address, profile, start in placed:
        others = tuple((name, at) for _, name, at in placed if name != profile)
        yield address, Seat(device, profile, start, others)
