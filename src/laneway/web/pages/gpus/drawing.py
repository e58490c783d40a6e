"""The pictures of a GPU, as it is and as a plan would leave it, with links to what they show."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from markupsafe import Markup

from laneway.api import VGPUDevice
from laneway.core.gpu.modes import Mode
from laneway.core.mig.positions import EIGHTHS
from laneway.core.mig.profiles import compute_slices, expected_profiles
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views.gpus import Gpu
from laneway.views.planned import Inside, Planned
from laneway.web import holders
from laneway.web.pictures.drawing import GpuDrawing, Named, Part, Vgpu
from laneway.web.pictures.marks import percent
from laneway.web.pictures.of_gpu import Links, drawing_of, vgpu_of
from laneway.web.pictures.planned import with_instances, with_vgpus
from laneway.web.place import link
from laneway.web.visit import Visit


def links(visit: Visit) -> Links:
    """Names that lead to pages, as far as the user may see what they name."""

    def holder(vgpu: VGPUDevice) -> Named | None:
        found = holders.of_vgpu(visit, vgpu)
        if found is None:
            return None
        text = found.text
        if found.is_stopped:
            text = visit.texts("holders.stopped", holder=text)
        return Named(text, found.url)

    return Links(vgpu=lambda vgpu: link("vgpus", vgpu.metadata.name), holder=holder)


def of_gpu(visit: Visit, gpu: Gpu) -> GpuDrawing | None:
    """The GPU as it is; None where its memory is not known."""
    return drawing_of(gpu, links(visit))


def after(
    visit: Visit, gpu: Gpu, vgpus: Mapping[str, int], mode: str, found: Planned
) -> GpuDrawing | None:
    """The GPU as a plan would leave it; None where it is refused, or the memory is not known."""
    if found.refusals:
        return None
    if not found.has_mig:
        stays = not mode and not vgpus
        mixed = (gpu.device.status.mode if stays else mode) == Mode.MIXED_SIZE
        return with_vgpus(gpu, vgpus, mixed=mixed, links=links(visit))
    now = of_gpu(visit, gpu)
    if now is None:
        return None
    if not now.compute:
        now = msgspec.structs.replace(now, parts=(), missing=(), compute=_slices(gpu))
    return _filled(visit, gpu, with_instances(now, found.added, found.removed), found)


def _filled(visit: Visit, gpu: Gpu, drawing: GpuDrawing, found: Planned) -> GpuDrawing:
    """GPU instances with the vGPUs that the plan has in them."""
    unit = drawing.mib // EIGHTHS
    there = {vgpu.spec.address: vgpu for vgpu in gpu.vgpus}
    shown = links(visit)

    def vgpu(one: Inside) -> Vgpu:
        if one.address in there:
            return vgpu_of(there[one.address], shown)
        return Vgpu(profile=short_name(one.profile), mib=framebuffer_mib(one.profile))

    def filled(part: Part) -> Part:
        inside = [vgpu(one) for one in found.inside if one.start == part.start // unit]
        return msgspec.structs.replace(part, vgpus=tuple(inside)) if part.name else part

    return msgspec.structs.replace(
        drawing, parts=tuple(map(filled, drawing.parts)), placed=True, missing=()
    )


def _slices(gpu: Gpu) -> int:
    """Compute slices of a GPU that is not in MIG mode yet."""
    device = gpu.pci.status.device_id if gpu.pci is not None else ""
    return max((compute_slices(one.name) for one in expected_profiles(device)), default=0)


def strip(visit: Visit, gpu: Gpu) -> Markup:
    """Its memory to scale, as low as a line of text; empty where that is not known."""
    found = of_gpu(visit, gpu)
    if found is None:
        return Markup("")
    drawn = Markup("").join(
        _cell(_kind(part), part.start, part.mib, found.mib) for part in found.parts
    )
    return Markup(
        '<svg class="gpu-strip" width="100%" height="14" aria-hidden="true" focusable="false">{}'
        "</svg>"
    ).format(drawn)


@lru_cache(maxsize=4096)
def _cell(kind: str, start: int, size: int, whole: int) -> Markup:
    """A part of a strip; most GPUs are divided alike."""
    return Markup(
        '<g class="pic-{}"><rect class="pic-box" x="{}" y="1" width="{}" height="12"/></g>'
    ).format(kind, percent(start, whole), percent(size, whole))


def _kind(part: Part) -> str:
    if not part.name:
        return "free"
    return "bad" if part.state.is_broken else part.state.value
