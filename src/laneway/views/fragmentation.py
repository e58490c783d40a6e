"""How much of what is free on a GPU one more vGPU can use, from the objects of a cluster."""

from __future__ import annotations

from laneway.core.fleet.fragmentation import Free, score
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views.gpus import Gpu
from laneway.views.memory import gib, occupancy


def free(gpu: Gpu) -> Free | None:
    """What is free; None where it is not known, as on a GPU without virtual functions."""
    fits, found = gpu.device.status.fits, occupancy(gpu)
    if found is None or not fits:
        return None
    there = (one.status for one in gpu.vgpus if one.status.vgpu_status)
    taken = sum(framebuffer_mib(one.configure_vgpu_type_name) for one in there)
    return Free(max(0, found.mib - taken), fits)


def percent(gpu: Gpu) -> str:
    """`33 %`; empty where it is not known, or nothing is free."""
    found = free(gpu)
    lost = score([found]) if found else None
    return "" if lost is None else f"{lost:.0%}".replace("%", " %")


def words(gpu: Gpu) -> str:
    """`A2-8Q of 12 GiB free, fragmentation 33 %`; empty as above."""
    found, lost = free(gpu), percent(gpu)
    if found is None or not lost:
        return ""
    return f"{short_name(found.largest) or 'none'} of {gib(found.mib)} free, fragmentation {lost}"
