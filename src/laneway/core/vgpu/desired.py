"""What to do about one vGPU: a desired state and an observation in, a plan or a reason out.

Two rules decide the hard cases. What runs is adopted: a vGPU that was made without Laneway is
reported and left alone, because a VM may be using it. Tear-down, also for another profile, happens
only on an explicit desired state: one that was made in view of what runs, and is not answered yet.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Container, Iterable

import msgspec

from laneway.core.decision import Decision
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import CreateMdev, Plan, RemoveMdev, Satisfied, SetVgpuType, Step
from laneway.core.refusals import (
    GpuUnreadable,
    ProfileExhausted,
    ProfileMissing,
    ProfileNotListed,
    UnmanagedProfile,
    UnmanagedVgpu,
    VfNotFound,
)
from laneway.core.vgpu.capacity import room
from laneway.core.vgpu.catalogue import VgpuProfile, profile_named
from laneway.core.vgpu.making_order import Wanted, together

NO_VGPU = "0"
"""The type id that means none, vendor VFIO."""

_UUID_NAMESPACE = uuid.UUID("0b5a7a3e-6f0c-5d0e-9d53-6c616e657761")


class DesiredVgpu(msgspec.Struct, frozen=True):
    """What the object's spec requests."""

    address: PciAddress
    enabled: bool
    profile: str
    explicit: bool
    """Whether what runs may be taken away for it. To make a vGPU where none is needs no proof."""


def mdev_uuid(node: str, function: VgpuFunction) -> str:
    """The UUID of a vGPU: a function of its card, so it survives reboots, restores and other slots.

    Of an unknown card it is a function of where the vGPU sits.
    """
    if not function.card or function.number is None:
        return _uuid_of_place(node, function)
    return str(uuid.uuid5(_UUID_NAMESPACE, f"{node}/{function.card}/{function.number}"))


def own_uuids(node: str, function: VgpuFunction) -> tuple[str, str]:
    """The UUIDs that Laneway gives, or gave before it knew the card, to a vGPU made here."""
    return mdev_uuid(node, function), _uuid_of_place(node, function)


def _uuid_of_place(node: str, function: VgpuFunction) -> str:
    return str(uuid.uuid5(_UUID_NAMESPACE, f"{node}/{function.parent}/{function.address}"))


class SharedGpu(msgspec.Struct, frozen=True):
    """A GPU with everything that its vGPUs share."""

    functions: tuple[VgpuFunction, ...]
    """All that can carry a vGPU."""
    gpu: PciFunction | None = None
    modes: GpuModes | None = None
    """None where the driver's program does not tell."""

    def function(self, address: PciAddress) -> VgpuFunction | None:
        return next((one for one in self.functions if one.address == address), None)


def decide(
    desired: DesiredVgpu, node: str, shared: SharedGpu, others: Iterable[DesiredVgpu] = ()
) -> Decision:
    """What to do about one vGPU.

    `others`: desired states that other vGPUs of the GPU become something else, which this one may
    need.
    """
    function = shared.function(desired.address)
    if function is None:
        return (VfNotFound(str(desired.address)),) if desired.enabled else Satisfied()
    if function.unreadable:
        return (GpuUnreadable(str(desired.address), function.unreadable),)
    current = function.configured
    if not desired.enabled:
        if current is None:
            return Satisfied()
        if desired.explicit:
            return Plan((removal(function, current),))
        return (UnmanagedVgpu(current.type_name),)
    if current is not None:
        if desired.profile in ("", current.type_name):
            return Satisfied()
        if not desired.explicit:
            return (UnmanagedProfile(desired.profile, current.type_name),)
    offered = tuple(sorted(kind.name for kind in function.creatable))
    if not desired.profile:
        return (ProfileMissing(offered),)
    if _known(desired.profile, shared) is None:
        return (ProfileNotListed(desired.profile, offered),)
    plan = (
        _creation(desired, node, shared)
        if current is None
        else _change(desired, node, shared, others)
    )
    return plan or (_exhausted(desired.profile, shared, offered),)


def _creation(desired: DesiredVgpu, node: str, shared: SharedGpu) -> Plan | None:
    function = shared.function(desired.address)
    if function is None:
        return None
    found = (kind for kind in function.creatable if kind.name == desired.profile)
    creatable = next(found, None)
    return Plan((creation(node, function, creatable),)) if creatable else None


def _change(
    desired: DesiredVgpu, node: str, shared: SharedGpu, others: Iterable[DesiredVgpu]
) -> Plan | None:
    """Another profile: by itself, or together with all that are to change as well.

    A function that carries a vGPU offers nothing, so whether there is room is worked out. On a
    unknown board it shows once the old vGPU is gone; the plan's undo brings that back.
    """
    for desired_states in (
        (desired,),
        (desired, *(one for one in others if one.address != desired.address)),
    ):
        new = {one.address: one.profile for one in desired_states if _known(one.profile, shared)}
        order = _order(new, shared)
        if order is not None:
            old = [one for one in shared.functions if one.address in new]
            steps = [removal(one, one.configured) for one in old if one.configured]
            return Plan((*steps, *(_remade(one, node, shared) for one in order)))
    return None


def _order(new: dict[PciAddress, str], shared: SharedGpu) -> tuple[Wanted, ...] | None:
    wanted = tuple(Wanted(address, profile) for address, profile in new.items())
    if shared.gpu is None:
        return wanted
    return together(shared.gpu, _without(new, shared), shared.modes, wanted)


def _without(gone: Container[PciAddress], shared: SharedGpu) -> tuple[VgpuFunction, ...]:
    return tuple(
        msgspec.structs.replace(one, configured=None) if one.address in gone else one
        for one in shared.functions
    )


def _remade(wanted: Wanted, node: str, shared: SharedGpu) -> Step:
    function, kind = shared.function(wanted.function), _known(wanted.profile, shared)
    if function is None or kind is None:
        raise ValueError(f"{wanted} is not of this GPU")
    return creation(node, function, kind)


def _exhausted(profile: str, shared: SharedGpu, offered: tuple[str, ...]) -> ProfileExhausted:
    of = 0
    if shared.gpu is not None:
        _, of = room(profile, shared.gpu, shared.functions, shared.modes or GpuModes())
    return ProfileExhausted(profile, carried(shared.functions), offered, of)


def changes(desired: DesiredVgpu, shared: SharedGpu) -> bool:
    """Whether a vGPU that is there is to become one of another profile."""
    function = shared.function(desired.address)
    current = function.configured if function else None
    return (
        current is not None
        and desired.enabled
        and desired.explicit
        and desired.profile not in ("", current.type_name)
    )


def _known(profile: str, shared: SharedGpu) -> VgpuType | None:
    return _find(profile, shared.functions) or _unlisted(profile, shared.functions)


def _find(profile: str, siblings: tuple[VgpuFunction, ...]) -> VgpuType | None:
    kinds = (kind for sibling in siblings for kind in sibling.supported)
    return next((kind for kind in kinds if kind.name == profile), None)


def _unlisted(profile: str, siblings: tuple[VgpuFunction, ...]) -> VgpuType | None:
    """A type, without its id, that the driver leaves out of its lists while others run.

    Only vendor VFIO does so; a card that carries nothing lists everything that it can do. The board
    is identified by what the card carries and still lists; where all of that is new to the
    catalogue, the profile is given the benefit of the doubt.
    """
    there = {name for name, _ in carried(siblings)}
    if not there or any(sibling.framework == "mdev" for sibling in siblings):
        return None
    named = profile_named(profile)
    listed = {kind.name for sibling in siblings for kind in sibling.supported}
    shown = {_board(one) for one in map(profile_named, there | listed) if one is not None}
    alike = named is not None and (not shown or _board(named) in shown)
    return VgpuType("", profile) if alike or profile in there else None


def _board(profile: VgpuProfile) -> tuple[str, bool]:
    return profile.board, profile.mig_backed


def carried(siblings: Iterable[VgpuFunction]) -> tuple[tuple[str, int], ...]:
    """What a GPU carries: profile and count, sorted by name."""
    counts = Counter(s.configured.type_name for s in siblings if s.configured is not None)
    return tuple(sorted(counts.items()))


def creation(node: str, function: VgpuFunction, kind: VgpuType) -> Step:
    """The step that makes a vGPU on a function that carries none."""
    if function.framework == "mdev":
        return CreateMdev(function.address, kind.id, kind.name, mdev_uuid(node, function))
    return SetVgpuType(function.address, kind.id, NO_VGPU, kind.name)


def removal(function: VgpuFunction, current: ConfiguredVgpu) -> Step:
    """The step that removes the vGPU of a function."""
    if function.framework == "mdev":
        return RemoveMdev(function.address, current.type_id, current.type_name, current.uuid)
    return SetVgpuType(function.address, NO_VGPU, current.type_id, current.type_name)
