"""A GPU as its picture shows it, with the page that each part leads to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from markupsafe import Markup

from laneway.api import VGPUDevice, find_condition
from laneway.core.mig.profiles import bare_name, compute_slices
from laneway.core.phrases import short_name
from laneway.core.vgpu.occupancy import Occupancy
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views import memory
from laneway.views.gpus import Gpu
from laneway.views.planned import Planned
from laneway.web import holders
from laneway.web.pages.gpus.states import is_mig
from laneway.web.pictures.drawing import Function, GpuDrawing, Named, Part, State, Vgpu
from laneway.web.pictures.marks import percent
from laneway.web.place import link
from laneway.web.visit import Visit


def of_gpu(visit: Visit, gpu: Gpu) -> GpuDrawing | None:
    """The GPU as it is; None where its memory is not known."""
    found = memory.occupancy(gpu)
    if found is None:
        return None
    vgpus = {vgpu.spec.address: _vgpu(visit, vgpu) for vgpu in gpu.vgpus if _is_there(vgpu)}
    missing = [
        _vgpu(visit, vgpu) for vgpu in gpu.vgpus if vgpu.spec.enabled and not _is_there(vgpu)
    ]
    parts = parts_of(found, vgpus, instance_ids(gpu))
    return GpuDrawing(
        title=f"{gpu.title} {gpu.board}".rstrip(),
        mib=found.mib,
        parts=parts,
        placed=found.placed,
        missing=tuple(missing),
        functions=tuple(_functions(gpu, parts, vgpus)),
        compute=_compute(gpu),
    )


def parts_of(
    found: Occupancy, vgpus: Mapping[str, Vgpu], ids: Iterable[int | None] = ()
) -> tuple[Part, ...]:
    """Memory part by part. `ids`: of the GPU instances, in the order in which they stand."""
    numbers, parts, start = iter(ids), [], 0
    for one in found.parts:
        inside = tuple(vgpus[address] for address in one.addresses if address in vgpus)
        slices = compute_slices(one.name) if one.name else 0
        parts.append(
            Part(
                start=start,
                mib=one.mib,
                name=short_name(one.name) if one.name else "",
                id=next(numbers, None) if slices else None,
                compute=slices,
                vgpus=inside,
            )
        )
        start += one.mib
    return tuple(parts)


def after(visit: Visit, gpu: Gpu, found: Planned) -> GpuDrawing | None:
    """The GPU as a plan would leave it; None where that is not known."""
    memory_then = found.occupancy
    if memory_then is None:
        return None
    there = {vgpu.spec.address: vgpu for vgpu in gpu.vgpus}
    vgpus = {
        address: _then(visit, there.get(address), profile)
        for address, profile in found.vgpus.items()
    }
    return GpuDrawing(
        title=f"{gpu.title} {gpu.board}".rstrip(),
        mib=memory_then.mib,
        parts=parts_of(memory_then, vgpus, (number or None for number in found.instances)),
        placed=memory_then.placed,
        compute=found.compute,
    )


def instance_ids(gpu: Gpu) -> list[int]:
    """Of the GPU instances, in the order in which its memory shows them."""
    if gpu.mig is None or not is_mig(gpu):
        return []
    return sorted(
        int(number)
        for one in gpu.mig.status.profile_status
        for number in one.vgpu_ids
        if number.isdecimal()
    )


def _compute(gpu: Gpu) -> int:
    if gpu.mig is None or not is_mig(gpu):
        return 0
    slices = (
        compute_slices(bare_name(one.name)) * max(1, one.total)
        for one in gpu.mig.status.profile_status
    )
    return max(slices, default=0)


def _is_there(vgpu: VGPUDevice) -> bool:
    return bool(vgpu.status.vgpu_status)


def _vgpu(visit: Visit, vgpu: VGPUDevice) -> Vgpu:
    profile = vgpu.status.configure_vgpu_type_name if _is_there(vgpu) else vgpu.spec.vgpu_type_name
    holder = holders.of_vgpu(visit, vgpu)
    state, why = state_of(vgpu, is_held=holder is not None)
    return Vgpu(
        name=Named(vgpu.spec.address, link("vgpus", vgpu.metadata.name)),
        profile=short_name(profile) or "?",
        mib=framebuffer_mib(profile),
        holder=Named(holder_words(visit, holder), holder.url) if holder is not None else None,
        state=state,
        why=why,
    )


def _then(visit: Visit, there: VGPUDevice | None, profile: str) -> Vgpu:
    """A vGPU of a plan: the one that is there, if it stays."""
    stays = there is not None and there.status.configure_vgpu_type_name == profile
    if there is not None and stays and _is_there(there):
        return _vgpu(visit, there)
    name = there.spec.address if there is not None else ""
    return Vgpu(name=Named(name), profile=short_name(profile), mib=framebuffer_mib(profile))


def holder_words(visit: Visit, holder: holders.Holder) -> str:
    """A holder by name, and that it does not run."""
    if holder.is_stopped:
        return visit.texts("holders.stopped", holder=holder.text)
    return holder.text


def state_of(vgpu: VGPUDevice, *, is_held: bool) -> tuple[State, str]:
    """How a vGPU is, and what is wrong with it."""
    ready = find_condition(vgpu.status.conditions, "Ready")
    is_current = ready is not None and ready.observed_generation >= vgpu.metadata.generation
    why = ready.message if ready is not None and is_current and ready.status == "False" else ""
    if vgpu.spec.enabled and not _is_there(vgpu):
        return State.MISSING, why
    if vgpu.spec.enabled and vgpu.status.configure_vgpu_type_name != vgpu.spec.vgpu_type_name:
        return State.WRONG, why
    if why:
        return State.BROKEN, why
    return (State.HELD if is_held else State.IDLE), ""


def _functions(gpu: Gpu, parts: tuple[Part, ...], vgpus: Mapping[str, Vgpu]) -> Iterable[Function]:
    places = {
        one.name.text: number
        for number, part in enumerate((part for part in parts if part.name), 1)
        for one in part.vgpus
    }
    known = {vgpu.spec.address: vgpu for vgpu in gpu.vgpus}
    for address in gpu.device.status.vf_addresses:
        href = link("vgpus", known[address].metadata.name) if address in known else ""
        there = vgpus.get(address)
        state = there.state if there else State.EMPTY
        if there is None and address in known and known[address].spec.enabled:
            state = State.MISSING
        yield Function(
            name=Named(address, href),
            state=state,
            profile=there.profile if there else "",
            part=places.get(address, 0),
        )


def strip(visit: Visit, gpu: Gpu) -> Markup:
    """Its memory to scale, as low as a line of text; empty where that is not known."""
    found = of_gpu(visit, gpu)
    if found is None:
        return Markup("")
    drawn = Markup("").join(_cell(part, found.mib) for part in found.parts)
    return Markup(
        '<svg class="gpu-strip" width="100%" height="14" aria-hidden="true" focusable="false">{}'
        "</svg>"
    ).format(drawn)


def _cell(part: Part, whole: int) -> Markup:
    kind = "free" if not part.name else "bad" if part.state.is_broken else part.state.value
    return Markup(
        '<g class="pic-{}"><rect class="pic-box" x="{}" y="1" width="{}" height="12"/></g>'
    ).format(kind, percent(part.start, whole), percent(part.mib, whole))
