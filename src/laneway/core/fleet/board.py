"""A GPU of a fleet as placement sees it: its card, what it carries, and which rule holds."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.gpu.modes import Mode
from laneway.core.names import vgpu_resource_name
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.placement import Carried
from laneway.core.vgpu.profiles import profile, profiles_on

SHARED_BY_TIME = ("", Mode.SAME_SIZE, Mode.MIXED_SIZE)
"""The modes in which vGPUs share a GPU by time; empty: not known, taken as SameSize."""


def card(gpu: Gpu) -> Card:
    """Its board; profiles that the driver lists win over those of the catalogue."""
    return card_of(gpu.device, gpu.profiles)


def carried(gpu: Gpu, *, held_only: bool = False) -> tuple[Carried, ...]:
    """The vGPUs that it carries; `held_only`: those alone that a VM or pod has."""
    vgpus = (one for one in gpu.vgpus if one.holder or not held_only)
    return tuple(Carried(one.profile, one.slot) for one in vgpus)


def is_mixed(gpu: Gpu) -> bool:
    """Whether its vGPUs may differ in size."""
    return gpu.mode == Mode.MIXED_SIZE


def can_mix(card: Card) -> bool:
    """Whether the board has a mode in which vGPUs may differ in size."""
    return any(known.ids for name in card.kinds if (known := profile(name)) is not None)


def by_resource(fleet: Fleet) -> dict[str, str]:
    """The profiles that the GPUs of a fleet can carry, by the resource that VMs request."""
    found: dict[str, str] = {}
    for known in dict.fromkeys((gpu.device, gpu.profiles) for gpu in fleet.gpus):
        for name in card_of(*known).kinds:
            found.setdefault(vgpu_resource_name(name), name)
    return found


def profiles(device: str, subsystem: str, listed: AbstractSet[str]) -> tuple[str, ...]:
    """All profiles of a GPU of these PCI ids, with those that its driver lists."""
    known = profiles_on(device, subsystem) if device else ()
    # A GPU that is full lists nothing more: its board is that of the profiles that it has.
    boards = {one.board for one in known if one.name in listed}
    return tuple(sorted(listed | {one.name for one in known if not boards or one.board in boards}))
