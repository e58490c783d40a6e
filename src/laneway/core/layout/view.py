"""One GPU as a layout sees it: the spec, what the card carries, and the steps between both.

Which function carries what follows one rule in every mode, so that the same desired state always
ends in the same layout: what is there already and desired stays where it is, what is in use
first of all and then what leaves the most room. New vGPUs go to the free functions in numeric
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.packing import gpus
from laneway.core.packing.keeping import staying
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.phrases import several
from laneway.core.plan import SetVgpuParameters, Step
from laneway.core.refusals import Refusal
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import held
from laneway.core.vgpu.catalogue import VgpuProfile, profiles_of
from laneway.core.vgpu.desired import creation, mdev_uuid, removal
from laneway.core.vgpu.placement import carried_on
from laneway.core.vgpu.profiles import profile


class DesiredGpu(msgspec.Struct, frozen=True):
    """Everything that a GPU is to carry: what is not named is to go."""

    address: PciAddress
    vgpus: tuple[tuple[str, int], ...]
    """Profile and count. None: the card is ready for vGPUs and carries none."""
    mixed_size: bool = False
    """vGPUs of different sizes at once, on a card that shares itself by time."""
    parameters: str = ""
    """Of every vGPU, `frame_rate_limiter=0`. Empty: as they are."""
    mig: bool | None = None
    """Whether the card is to be in MIG mode. None: as the profiles imply; with none, as it is."""


class View(msgspec.Struct, frozen=True):
    """A desired state, compared with what there is."""

    desired: DesiredGpu
    situation: Situation
    gpu: PciFunction
    modes: GpuModes
    functions: tuple[VgpuFunction, ...]
    """Those that can carry a vGPU, in numeric order."""
    wanted: dict[str, int]

    @property
    def device(self) -> str:
        return str(self.gpu.address)

    @property
    def carried(self) -> tuple[tuple[VgpuFunction, ConfiguredVgpu], ...]:
        return tuple((one, one.configured) for one in self.functions if one.configured)


class Choice(NamedTuple):
    """Which vGPUs stay."""

    kept: tuple[VgpuFunction, ...]
    removed: tuple[VgpuFunction, ...]
    against: tuple[Refusal, ...]
    """Those that would have to go, and cannot."""


def view_of(desired: DesiredGpu, gpu: PciFunction, situation: Situation) -> View:
    wanted: Counter[str] = Counter()
    for name, count in desired.vgpus:
        wanted[name] += count
    return View(
        desired,
        situation,
        gpu,
        situation.gpus.get(gpu.address) or GpuModes(),
        situation.inventory.vgpus_of(gpu.address),
        dict(wanted),
    )


# ------------------------------------------------------------------------------------ what is known


def catalogued(view: View) -> tuple[VgpuProfile, ...]:
    """What the catalogue has of the board."""
    return profiles_of(view.gpu.device, view.gpu.subsystem_device)


def shown_names(view: View) -> frozenset[str]:
    """The profiles that the driver lists, on any function, or that the card carries."""
    listed = {kind.name for one in view.functions for kind in one.supported}
    return frozenset(listed | {vgpu.type_name for _, vgpu in view.carried} - {""})


def offered_names(view: View) -> tuple[str, ...]:
    """The answer to a request for an unknown profile."""
    shown = {kind.name for one in view.functions for kind in one.creatable} or shown_names(view)
    return tuple(sorted(shown or {row.name for row in catalogued(view)}))


def is_known(view: View, name: str, *, complete: bool) -> bool:
    """Whether the card can have a profile at all. `complete`: the driver lists all that it can."""
    wanted, shown = profile(name), shown_names(view)
    if wanted is None:
        return False
    if name in shown or (complete and shown):
        return name in shown
    rows = catalogued(view)
    if rows and name not in {row.name for row in rows}:
        return False
    # A board that is new to the catalogue has the benefit of the doubt.
    boards = {one.board for one in map(profile, shown) if one is not None}
    return not boards or wanted.board in boards


def lists_all(view: View) -> bool:
    """Whether the driver lists every time-sliced profile now; vendor VFIO stops with a vGPU."""
    mdev = any(function.framework == "mdev" for function in view.functions)
    return bool(view.functions) and (mdev or not view.carried)


def is_measured(view: View) -> bool:
    """Whether the memory of the card is known."""
    return lists_all(view) or bool(catalogued(view))


def type_id(view: View, name: str) -> str:
    """As the driver calls a profile now; empty when it does not list it at this moment."""
    listed = (kind for one in view.functions for kind in (*one.creatable, *one.supported))
    there = (vgpu.type_id for _, vgpu in view.carried if vgpu.type_name == name)
    return next((kind.id for kind in listed if kind.name == name), next(there, ""))


# ------------------------------------------------------------------------------------ what stays


def is_held(view: View, function: VgpuFunction) -> bool:
    return bool(view.situation.holders.get(function.address))


def choose(view: View, keeps: Callable[[VgpuFunction], bool]) -> Choice:
    """Keep what is desired and in use, and of the rest what is desired and `keeps` says.

    Of several that are alike, those that leave the most room for others.
    """
    left = Counter(view.wanted)
    kept: list[VgpuFunction] = []
    for function, vgpu in view.carried:
        if left[vgpu.type_name] > 0 and is_held(view, function):
            left[vgpu.type_name] -= 1
            kept.append(function)
    free = [one for one, _ in view.carried if not is_held(view, one) and keeps(one)]
    names = tuple(sorted(shown_names(view)))
    gpu = gpus.Gpu(view.gpu.device, names, view.desired.mixed_size)
    stays = staying(gpu, carried_on(kept), carried_on(free), +left)
    kept += [one for index, one in enumerate(free) if index in stays]
    removed = tuple(function for function, _ in view.carried if function not in kept)
    stay = tuple(function for function, _ in view.carried if function in kept)
    return Choice(stay, removed, losses(view, removed))


def losses(view: View, removed: Iterable[VgpuFunction]) -> tuple[Refusal, ...]:
    """Why these vGPUs cannot be removed."""
    return tuple(
        refusal for function in removed for refusal in held(function.address, view.situation)
    )


def missing(view: View, kept: Iterable[VgpuFunction]) -> dict[str, int]:
    """What is desired and not among those that stay."""
    left = Counter(view.wanted)
    left.subtract(one.configured.type_name for one in kept if one.configured)
    return {name: count for name, count in left.items() if count > 0}


# ------------------------------------------------------------------------------------------ steps


def removals(removed: Iterable[VgpuFunction]) -> list[Step]:
    return [removal(function, function.configured) for function in removed if function.configured]


def creations(view: View, kept: Iterable[VgpuFunction], order: Iterable[str]) -> list[Step]:
    """New vGPUs on the functions that are free, in this order; then the parameters of all."""
    there = tuple(kept)
    free = (function for function in view.functions if function not in there)
    steps: list[Step] = []
    parameters = list(_parameters(view, there))
    for function, name in zip(free, order, strict=False):
        kind = VgpuType(type_id(view, name), name)
        steps.append(creation(view.situation.node, function, kind))
        if view.desired.parameters:
            mdev = function.framework == "mdev"
            uuid = mdev_uuid(view.situation.node, function) if mdev else ""
            parameters.append(
                SetVgpuParameters(function.address, uuid, view.desired.parameters, "")
            )
    return [*steps, *parameters]


def _parameters(view: View, kept: Iterable[VgpuFunction]) -> Iterable[Step]:
    for function in kept:
        if function.configured and differs(view, function):
            before = view.situation.parameters.get(function.address, "")
            yield SetVgpuParameters(
                function.address, function.configured.uuid, view.desired.parameters, before
            )


def differs(view: View, function: VgpuFunction) -> bool:
    """Whether a vGPU that stays has other parameters than desired."""
    has = view.situation.parameters.get(function.address, "")
    return bool(view.desired.parameters) and _settings(has) != _settings(view.desired.parameters)


def _settings(parameters: str) -> frozenset[str]:
    return frozenset(part.strip() for part in parameters.split(",") if part.strip())


def untouchable(view: View, kept: Iterable[VgpuFunction]) -> tuple[Refusal, ...]:
    """Those in use whose parameters would have to change."""
    changed = [function for function in kept if differs(view, function)]
    return losses(view, changed)


def words(view: View, counts: Mapping[str, int]) -> tuple[str, ...]:
    """What a further plan is to do, for a person."""
    said = tuple(f"configure {several(name, count)}" for name, count in counts.items())
    if said and view.desired.parameters:
        said += (f"set the vGPU parameters of all to {view.desired.parameters}",)
    return said
