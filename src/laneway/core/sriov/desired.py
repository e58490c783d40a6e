"""What an object asks of a card's virtual functions, and the one decision about it.

The rules are those of vGPUs: to make virtual functions where there are none needs no proof, so they
come back after a reboot. Those that exist are adopted; they are taken away, also for another
number, only on an explicit desired state.
"""

from __future__ import annotations

import msgspec

from laneway.core.decision import TO_BE_PLANNED, Decision
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.plan import Satisfied
from laneway.core.refusals import (
    DeviceNotFound,
    UnmanagedVfCount,
    UnmanagedVfs,
    VfDriverMissing,
    VfsIncomplete,
)
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import in_use, set_vfs, vf_count


class DesiredVfs(msgspec.Struct, frozen=True):
    """What the object's spec requests."""

    address: PciAddress
    count: int
    explicit: bool
    """Whether virtual functions that exist may be taken away for it."""
    restores: bool = False
    """Whether the card had them already because of this very spec: a boot took them, and they come
    back although the node uses the card."""


def decide(desired: DesiredVfs, situation: Situation) -> Decision:
    """What is to be done about the virtual functions of a card."""
    card = situation.inventory.function(desired.address)
    if card is None:
        return (DeviceNotFound(str(desired.address)),)
    existing = vf_count(card)
    if existing == desired.count:
        return Satisfied()
    if not desired.restores and (used := in_use(card, situation.inventory)):
        return (used,)
    if existing and not desired.explicit:
        if desired.count:
            return (UnmanagedVfCount(str(desired.address), desired.count, existing),)
        return (UnmanagedVfs(str(desired.address), existing),)
    if situation.at_a_glance:
        return TO_BE_PLANNED
    return set_vfs(desired.address, desired.count, situation, restores=desired.restores)


def incomplete(address: PciAddress, inventory: Inventory) -> VfsIncomplete | VfDriverMissing | None:
    """What is wrong with a GPU that has virtual functions, which come all together."""
    card = inventory.function(address)
    if card is None or not card.sriov_gpu:
        return None
    if 0 < vf_count(card) < (card.total_vfs or 0):
        return VfsIncomplete(str(address), vf_count(card), card.total_vfs or 0)
    return _undriven(address, inventory)


def _undriven(card: PciAddress, inventory: Inventory) -> VfDriverMissing | None:
    found = tuple(
        str(one.address) for one in inventory.functions if one.physfn == card and not one.driver
    )
    return VfDriverMissing(str(card), found) if found else None


def facts(card: PciAddress, inventory: Inventory) -> tuple[object, ...]:
    """What decides whether a spec about a card can be fulfilled, as far as a scan shows it."""
    family = {card}
    for function in inventory.functions:
        if function.address == card:
            family.update(function.vfs)
    # Not the functions as a whole: the speed of a link changes with a card's load.
    functions = tuple(
        (one.address, one.driver, one.vfs, one.num_vfs, one.total_vfs, one.iommu_group)
        for one in inventory.functions
        if one.address in family
    )
    vgpus = tuple(
        (one.address, one.configured) for one in inventory.vgpus_of(card) if one.configured
    )
    critical = tuple(sorted((a, why) for a, why in inventory.critical.items() if a in family))
    modes, error = inventory.modes.get(card), inventory.unasked.get(card)
    return functions, vgpus, critical, modes, error, inventory.nvidia_driver
