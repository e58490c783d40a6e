"""What to do about one vGPU: a wish and an observation in, a plan or a reason out.

Two rules decide the hard cases. What runs is adopted: a vGPU that somebody made without Laneway is
reported and left alone, because a VM may be using it. Tear-down, also for another profile, happens
only on an explicit wish: one that was made in view of what runs, and is not answered yet.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable

import msgspec

from laneway.core.catalogue import VgpuProfile, profile_named
from laneway.core.decision import Decision
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan, RemoveMdev, Satisfied, SetVgpuType, Step
from laneway.core.refusals import (
    ConfiguredElsewhere,
    FunctionMissing,
    OtherProfileRunning,
    ProfileExhausted,
    ProfileMissing,
    ProfileUnknown,
)

NO_VGPU = "0"
"""The type id that means none, vendor VFIO."""

_UUID_NAMESPACE = uuid.UUID("0b5a7a3e-6f0c-5d0e-9d53-6c616e657761")


class VgpuWish(msgspec.Struct, frozen=True):
    """What the object's spec asks for."""

    address: PciAddress
    enabled: bool
    profile: str
    explicit: bool
    """Whether what runs may be taken away for it. To make a vGPU where none is needs no proof."""


def mdev_uuid(node: str, function: VgpuFunction) -> str:
    """The UUID of a vGPU: a function of where it sits, so it survives reboots and restores."""
    return str(uuid.uuid5(_UUID_NAMESPACE, f"{node}/{function.parent}/{function.address}"))


def decide(
    wish: VgpuWish, node: str, function: VgpuFunction | None, siblings: Iterable[VgpuFunction]
) -> Decision:
    """What to do about one vGPU. `siblings`: all functions of the same GPU, this one included."""
    if function is None:
        return (FunctionMissing(str(wish.address)),) if wish.enabled else Satisfied()
    current = function.configured
    if not wish.enabled:
        if current is None:
            return Satisfied()
        if wish.explicit:
            return Plan((removal(function, current),))
        return (ConfiguredElsewhere(current.type_name),)
    if current is not None:
        if wish.profile in ("", current.type_name):
            return Satisfied()
        if not wish.explicit:
            return (OtherProfileRunning(wish.profile, current.type_name),)
    return _configure(wish.profile, node, function, tuple(siblings))


def _configure(
    profile: str, node: str, function: VgpuFunction, siblings: tuple[VgpuFunction, ...]
) -> Decision:
    offered = tuple(sorted(kind.name for kind in function.creatable))
    if not profile:
        return (ProfileMissing(offered),)
    known = _find(profile, siblings) or _unlisted(profile, siblings)
    if known is None:
        return (ProfileUnknown(profile, offered),)
    creatable = next((kind for kind in function.creatable if kind.name == profile), None)
    if function.configured is None:
        if creatable is None:
            return (ProfileExhausted(profile, _carried(siblings), offered),)
        return Plan((creation(node, function, creatable),))
    # A function that carries a vGPU offers nothing itself, so whether the change fits is known
    # only once the old one is gone. The plan's undo brings the old one back when it does not.
    return Plan(
        (
            removal(function, function.configured),
            creation(node, function, creatable or known),
        )
    )


def _find(profile: str, siblings: tuple[VgpuFunction, ...]) -> VgpuType | None:
    kinds = (kind for sibling in siblings for kind in sibling.supported)
    return next((kind for kind in kinds if kind.name == profile), None)


def _unlisted(profile: str, siblings: tuple[VgpuFunction, ...]) -> VgpuType | None:
    """A type, without its id, that the driver leaves out of its lists while others run.

    Only vendor VFIO does so; a card that carries nothing lists everything that it can do. The board
    is told by what the card carries and still lists; where all of that is new to the catalogue, the
    profile is given the benefit of the doubt.
    """
    carried = {name for name, _ in _carried(siblings)}
    if not carried or any(sibling.framework == "mdev" for sibling in siblings):
        return None
    named = profile_named(profile)
    listed = {kind.name for sibling in siblings for kind in sibling.supported}
    shown = {_board(one) for one in map(profile_named, carried | listed) if one is not None}
    alike = named is not None and (not shown or _board(named) in shown)
    return VgpuType("", profile) if alike or profile in carried else None


def _board(profile: VgpuProfile) -> tuple[str, bool]:
    return profile.board, profile.mig_backed


def _carried(siblings: tuple[VgpuFunction, ...]) -> tuple[tuple[str, int], ...]:
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
