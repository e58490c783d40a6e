"""The memory of a GPU: how much of it is allocated, what occupies it, and its holders."""

from __future__ import annotations

from laneway.controllers.devices.holder import holder
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.occupancy import Occupancy, Vgpu, partitioned, time_sliced
from laneway.core.vgpu.profiles import MIB_PER_GIB
from laneway.views.gpus import Gpu
from laneway.views.page import Picture


def picture(gpu: Gpu) -> Picture | None:
    """What there is to draw; None where the memory is not known."""
    found = occupancy(gpu)
    if found is None:
        return None
    return Picture(found, {vgpu.spec.address: holder(vgpu.status.allocation) for vgpu in gpu.vgpus})


def title(shown: Picture | None) -> str:
    """How much is allocated, as the heading of a picture."""
    if shown is None:
        return "Memory: not known."
    found = shown.occupancy
    return f"Memory: {gib(found.allocated_mib)} of {gib(found.mib)} allocated"


def allocated(gpu: Gpu) -> str:
    """`8 of 16 GiB`; empty where it is not known."""
    found = occupancy(gpu)
    if found is None:
        return ""
    return f"{gib(found.allocated_mib).removesuffix(' GiB')} of {gib(found.mib)}"


def gib(mib: int) -> str:
    """`16 GiB`, `0.5 GiB`."""
    return f"{mib / MIB_PER_GIB:g} GiB"


def occupancy(gpu: Gpu) -> Occupancy | None:
    """The memory of a GPU; None where it is not known."""
    if gpu.pci is None:
        return None
    names = {name for vgpu in gpu.vgpus for name in vgpu.status.available_types}
    vgpus = [
        Vgpu(
            vgpu.spec.address,
            vgpu.status.configure_vgpu_type_name,
            vgpu.status.placement,
            vgpu.status.gpu_instance,
        )
        for vgpu in gpu.vgpus
        if vgpu.status.vgpu_status
    ]
    names.update(one.profile for one in vgpus if one.profile)
    names.update(gpu.device.status.fits)
    card = card_of(gpu.pci.status.device_id, names)
    if not gpu.has_mig:
        return time_sliced(card, vgpus)
    return partitioned(card, gpu.instances, vgpus) if gpu.mig is not None else None
