"""How a GPU would be after a change that is not made yet: the second of two pictures.

It is a forecast by the rules that agents plan by. What an agent will really do only its own trial
says; where both differ, what it says counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping

import msgspec

from laneway.api import VGPUDevice
from laneway.core.gpu.modes import Mode
from laneway.core.mig.positions import EIGHTHS, Position
from laneway.core.mig.profiles import compute_slices
from laneway.core.packing import gpus
from laneway.core.packing.keeping import staying
from laneway.core.packing.order import best_order
from laneway.core.phrases import short_name
from laneway.core.vgpu import occupancy
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.placement import Carried, Placed
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views.gpus import Gpu
from laneway.web.pictures.drawing import GpuDrawing, Named, Part, Vgpu
from laneway.web.pictures.of_gpu import Links, in_order, vgpu_of


def with_vgpus(
    gpu: Gpu, wanted: Mapping[str, int], *, mixed: bool, links: Links
) -> GpuDrawing | None:
    """A GPU that shares itself by time, with these vGPUs and no others, by the full profile name.

    None where they do not fit, or where nothing is known about the GPU's memory.
    """
    if gpu.pci is None:
        return None
    names = {name for one in gpu.vgpus for name in one.status.available_types}
    names.update(gpu.device.status.fits)
    card = card_of(gpu.pci.status.device_id, names)
    kept, missing = _kept(gpu, wanted, names, mixed=mixed)
    placed = _placed(card, kept, missing, mixed=mixed)
    free = [one for one in gpu.vgpus if one not in kept]
    if placed is None or (gpu.vgpus and len(placed) > len(free)):
        return None
    vgpus = {one.spec.address: vgpu_of(one, links) for one in kept}
    sizes = [
        occupancy.Vgpu(one.spec.address, one.status.configure_vgpu_type_name, one.status.placement)
        for one in kept
    ]
    for number, one in enumerate(placed):
        # Without virtual functions yet, the places have to do without addresses.
        address = free[number].spec.address if free else f"~{number:02}"
        name = Named(address if free else "")
        size = framebuffer_mib(one.profile)
        vgpus[address] = Vgpu(name=name, profile=short_name(one.profile), mib=size)
        sizes.append(occupancy.Vgpu(address, one.profile, one.start))
    found = occupancy.time_sliced(card, sizes)
    if found is None:
        return None
    return GpuDrawing(
        title=f"{gpu.title} {gpu.board}".rstrip(),
        mib=found.mib,
        parts=in_order(found, vgpus),
        placed=found.placed,
    )


def _kept(
    gpu: Gpu, wanted: Mapping[str, int], names: Iterable[str], *, mixed: bool
) -> tuple[list[VGPUDevice], dict[str, int]]:
    """The vGPUs that stay, and how many of each profile are made in addition.

    Those in use stay first. Another mode takes all others away.
    """
    there = [one for one in gpu.vgpus if one.status.vgpu_status]
    left = Counter(wanted)
    kept: list[VGPUDevice] = []
    for one in there:
        name = one.status.configure_vgpu_type_name
        if left[name] > 0 and one.status.allocation is not None:
            left[name] -= 1
            kept.append(one)
    if (gpu.device.status.mode == Mode.MIXED_SIZE) == mixed:
        free = [one for one in there if one.status.allocation is None]
        device = gpu.pci.status.device_id if gpu.pci is not None else ""
        packed = gpus.Gpu(device, tuple(sorted(names)), mixed)
        stays = staying(packed, [*map(_carried, kept)], [*map(_carried, free)], +left)
        kept += [one for index, one in enumerate(free) if index in stays]
        left.subtract(free[index].status.configure_vgpu_type_name for index in stays)
    return kept, {name: count for name, count in left.items() if count > 0}


def _carried(vgpu: VGPUDevice) -> Carried:
    return Carried(vgpu.status.configure_vgpu_type_name, vgpu.status.placement)


def _placed(
    card: Card, kept: Iterable[VGPUDevice], missing: Mapping[str, int], *, mixed: bool
) -> tuple[Placed, ...] | None:
    if not set(missing) <= set(card.kinds):
        return None
    return best_order(card, map(_carried, kept), missing, mixed=mixed)


def with_instances(
    drawing: GpuDrawing, added: Iterable[Position], removed: Container[int] = ()
) -> GpuDrawing:
    """A GPU in MIG mode with GPU instances at these places, and without those of these ids."""
    unit = drawing.mib // EIGHTHS
    parts = [part for part in drawing.occupied if part.id not in removed]
    parts += [
        Part(
            start=place.start * unit,
            mib=place.size * unit,
            name=place.profile,
            compute=compute_slices(place.profile),
        )
        for place in added
    ]
    whole: list[Part] = []
    end = 0
    for part in sorted(parts, key=lambda part: part.start):
        if part.start > end:
            whole.append(Part(start=end, mib=part.start - end))
        whole.append(part)
        end = part.start + part.mib
    if end < drawing.mib:
        whole.append(Part(start=end, mib=drawing.mib - end))
    return msgspec.structs.replace(drawing, parts=tuple(whole), functions=())
