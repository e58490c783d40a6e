"""The profiles that functions can have: by size and series, with what is left, or why none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.api import VGPUDevice
from laneway.controllers.devices.vgpu_room import why_not
from laneway.core.phrases import short_name
from laneway.views.gpus import Gpu
from laneway.web.pages.gpus.profiles import Kinds, Size, kinds_of

Chosen = Sequence[tuple[VGPUDevice, Gpu | None]]
"""Functions with their GPUs."""


class Pick(NamedTuple):
    """A profile to choose."""

    name: str
    """As the driver names it."""
    short: str
    left: int
    """How many more of it fit on the GPUs of these functions."""
    takers: int
    """How many of the functions can have it now, all of them together."""
    why: str
    """Why none can; empty where one can."""


class Picker(NamedTuple):
    """All profiles of the functions' GPUs."""

    sliced: Sequence[Size]
    backed: Sequence[Size]
    """Those in GPU instances."""
    picks: Mapping[str, Pick]
    """By short name."""
    closed: Sequence[tuple[str, Sequence[str]]]
    """Why profiles cannot be chosen, and which."""

    @property
    def has_any(self) -> bool:
        return bool(self.picks)

    @staticmethod
    def series(sizes: Sequence[Size]) -> list[str]:
        return Kinds.series(sizes)


def picker_of(functions: Chosen) -> Picker:
    """The profiles for these functions. Those of the mode that no GPU is in are only explained."""
    gpus = list({gpu.name: gpu for _, gpu in functions if gpu is not None}.values())
    sliced: dict[tuple[int, int, str], Size] = {}
    backed: dict[tuple[int, int, str], Size] = {}
    picks: dict[str, Pick] = {}
    for gpu in gpus:
        kinds = kinds_of(gpu)
        _merge(backed if gpu.has_mig else sliced, kinds.backed if gpu.has_mig else kinds.sliced)
        for cell in kinds.cells:
            if cell.short not in picks:
                picks[cell.short] = _pick(functions, cell.name, gpus, gpu)
    closed: dict[str, list[str]] = {}
    for pick in picks.values():
        if pick.why:
            closed.setdefault(pick.why, []).append(pick.short)
    return Picker(_rows(sliced), _rows(backed), picks, list(closed.items()))


def _merge(into: dict[tuple[int, int, str], Size], sizes: Sequence[Size]) -> None:
    for size in sizes:
        key = size.slices, size.mib, size.variant
        known = into.get(key)
        into[key] = size if known is None else size._replace(cells={**known.cells, **size.cells})


def _rows(sizes: Mapping[tuple[int, int, str], Size]) -> list[Size]:
    return [sizes[key] for key in sorted(sizes)]


def _pick(functions: Chosen, name: str, gpus: Sequence[Gpu], known_to: Gpu) -> Pick:
    left = {gpu.name: gpu.device.status.fits.get(name, 0) for gpu in gpus}
    takers = 0
    for gpu in gpus:
        able = sum(_can_have(vgpu, name) for vgpu, of in functions if of is gpu)
        fresh = gpu.device.status.fits.get(name)
        takers += able if fresh is None else min(able, max(fresh, _changing(functions, gpu, name)))
    why = "" if takers else _reason(functions, name, known_to)
    return Pick(name, short_name(name), sum(left.values()), takers, why)


def _can_have(vgpu: VGPUDevice, name: str) -> bool:
    status = vgpu.status
    return name in status.available_types or name == status.configure_vgpu_type_name


def _changing(functions: Chosen, gpu: Gpu, name: str) -> int:
    """How many of the functions carry it already."""
    return sum(of is gpu and vgpu.status.configure_vgpu_type_name == name for vgpu, of in functions)


def _reason(functions: Chosen, name: str, gpu: Gpu) -> str:
    """Why the first function of a GPU cannot have a profile."""
    vgpu = next(vgpu for vgpu, of in functions if of is gpu)
    return why_not(vgpu, gpu.device, name, gpu.mig)
