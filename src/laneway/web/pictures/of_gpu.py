"""The drawing of a GPU from what the cluster knows about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from laneway.api import VGPUDevice, find_condition
from laneway.core.mig.positions import EIGHTHS, Position, free_positions, positions
from laneway.core.mig.profiles import bare_name, compute_slices
from laneway.core.phrases import short_name
from laneway.core.vgpu.occupancy import Occupancy
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views.gpus import Gpu
from laneway.views.memory import occupancy
from laneway.web.pictures.drawing import Function, GpuDrawing, Named, Part, State, Vgpu


class Links(msgspec.Struct, frozen=True):
    """The pages that names in a picture lead to."""

    vgpu: Callable[[VGPUDevice], str]
    holder: Callable[[VGPUDevice], Named | None]
    """The holder of a vGPU, or the VM that it is reserved for, as far as the user may see it."""


def drawing_of(gpu: Gpu, links: Links) -> GpuDrawing | None:
    """A GPU as it is; None where its memory is not known."""
    found = occupancy(gpu)
    if found is None:
        return None
    vgpus = {one.spec.address: vgpu_of(one, links) for one in gpu.vgpus}
    parts, placed = _parts(gpu, found, vgpus)
    number_of = {
        vgpu.name.text: number
        for number, part in enumerate((part for part in parts if part.name), 1)
        for vgpu in part.vgpus
    }
    return GpuDrawing(
        title=f"{gpu.title} {gpu.board}".rstrip(),
        mib=found.mib,
        parts=parts,
        placed=placed,
        missing=tuple(one for one in vgpus.values() if one.state is State.MISSING),
        functions=tuple(_function(one, number_of) for one in vgpus.values()),
        compute=_compute(gpu),
    )


def places_of(gpu: Gpu) -> tuple[Position, ...]:
    """Where one more GPU instance could be; empty where that is not known, or nowhere."""
    there = _positions(gpu)
    if gpu.mig is None or gpu.pci is None or there is None:
        return ()
    available = {bare_name(one.name): one.available for one in gpu.mig.status.profile_status}
    return free_positions(gpu.pci.status.device_id, there.values(), available)


# ---------------------------------------------------------------------------------------- vGPUs


def vgpu_of(one: VGPUDevice, links: Links) -> Vgpu:
    """The vGPU of a virtual function, which may have none."""
    status, has = one.status, links.holder(one)
    state, why = _state(one, is_held=has is not None)
    profile = status.configure_vgpu_type_name if status.vgpu_status else one.spec.vgpu_type_name
    return Vgpu(
        name=Named(one.spec.address, links.vgpu(one)),
        profile=short_name(profile),
        mib=framebuffer_mib(profile),
        holder=has,
        state=state,
        why=why,
    )


def _state(one: VGPUDevice, *, is_held: bool) -> tuple[State, str]:
    """How it is, and what the agent says about it."""
    ready = find_condition(one.status.conditions, "Ready")
    answered = ready is not None and ready.observed_generation >= one.metadata.generation
    why = ready.message if answered and ready is not None and ready.status != "True" else ""
    if not one.status.vgpu_status:
        return (State.MISSING, why) if one.spec.enabled else (State.EMPTY, "")
    desired = one.spec.vgpu_type_name
    if one.spec.enabled and desired not in ("", one.status.configure_vgpu_type_name):
        return State.WRONG, why
    if answered and ready is not None and ready.status == "False":
        return State.BROKEN, why
    return (State.HELD if is_held else State.IDLE), ""


def _function(one: Vgpu, number_of: Mapping[str, int]) -> Function:
    return Function(
        name=one.name,
        state=one.state,
        profile="" if one.state is State.EMPTY else one.profile,
        part=number_of.get(one.name.text, 0),
    )


# ---------------------------------------------------------------------------------------- memory


def _parts(gpu: Gpu, found: Occupancy, vgpus: Mapping[str, Vgpu]) -> tuple[tuple[Part, ...], bool]:
    """The memory from its beginning to its end, and whether the places are known."""
    if (there := _positions(gpu)) is not None:
        return tuple(_at_positions(gpu, found.mib, there, vgpus)), True
    return in_order(found, vgpus, [number for number, _ in gpu.instances]), found.placed


def in_order(
    found: Occupancy, vgpus: Mapping[str, Vgpu], instances: Iterable[int] = ()
) -> tuple[Part, ...]:
    """Parts one after another; `instances` are the ids of GPU instances in the same order."""
    ids = iter(instances)
    parts, start = [], 0
    for one in found.parts:
        parts.append(
            Part(
                start=start,
                mib=one.mib,
                name=short_name(one.name),
                id=next(ids, None) if one.name else None,
                compute=compute_slices(one.name),
                vgpus=tuple(vgpus[address] for address in one.addresses),
            )
        )
        start += one.mib
    return tuple(parts)


def _at_positions(
    gpu: Gpu, mib: int, there: Mapping[int, Position], vgpus: Mapping[str, Vgpu]
) -> Iterator[Part]:
    """GPU instances at their places, and what is free between them."""
    end = 0
    for number, place in sorted(there.items(), key=lambda item: item[1].start):
        start, size = place.start * mib // EIGHTHS, place.size * mib // EIGHTHS
        if start > end:
            yield Part(start=end, mib=start - end)
        yield Part(
            start=start,
            mib=size,
            name=place.profile,
            id=number,
            compute=compute_slices(place.profile),
            vgpus=tuple(
                vgpus[one.spec.address]
                for one in gpu.vgpus
                if one.status.vgpu_status and one.status.gpu_instance == number
            ),
        )
        end = start + size
    if end < mib:
        yield Part(start=end, mib=mib - end)


def _positions(gpu: Gpu) -> dict[int, Position] | None:
    if gpu.pci is None or gpu.mig is None or not gpu.has_mig:
        return None
    return positions(gpu.pci.status.device_id, gpu.instances)


def _compute(gpu: Gpu) -> int:
    """Compute slices of a GPU in MIG mode: those of its largest profile."""
    if gpu.mig is None or not gpu.has_mig:
        return 0
    names = (bare_name(one.name) for one in gpu.mig.status.profile_status)
    return max(map(compute_slices, names), default=0)
