"""What an object wishes of a card's virtual functions, judged by the last scan alone.

The rules are those of vGPUs: to make virtual functions where there are none needs no proof, so they
come back after a reboot. Those that exist are adopted; they are taken away, also for another
number, only on an explicit wish.
"""

from __future__ import annotations

import msgspec

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Satisfied
from laneway.core.refusals import DeviceMissing, OtherVfCount, Refusal, VfsElsewhere, VfsUndriven
from laneway.core.sriov import vf_count


class VfWish(msgspec.Struct, frozen=True):
    """What the object's spec asks for."""

    address: PciAddress
    count: int | None
    """None: as many as the card makes, which a GPU's driver decides."""
    explicit: bool
    """Whether virtual functions that exist may be taken away for it."""


def judge(wish: VfWish, card: PciFunction | None) -> Satisfied | tuple[Refusal, ...] | None:
    """What can be said without a closer look; None where something is to be done."""
    if card is None:
        return (DeviceMissing(str(wish.address)),)
    existing = vf_count(card)
    if existing == wish.count or (wish.count is None and existing):
        return Satisfied()
    if not existing or wish.explicit:
        return None
    if wish.count:
        return (OtherVfCount(str(wish.address), wish.count, existing),)
    return (VfsElsewhere(str(wish.address), existing),)


def undriven(wish: VfWish, inventory: Inventory) -> VfsUndriven | None:
    """What is wrong with a GPU that has the virtual functions which were asked for."""
    found = tuple(
        str(one.address)
        for one in inventory.functions
        if one.physfn == wish.address and not one.driver
    )
    return VfsUndriven(str(wish.address), found) if found else None


def facts(wish: VfWish, inventory: Inventory) -> tuple[object, ...]:
    """What decides whether the wish can be fulfilled, as far as a scan shows it."""
    family = {wish.address}
    for function in inventory.functions:
        if function.address == wish.address:
            family.update(function.vfs)
    # Not the functions as a whole: the speed of a link changes with a card's load.
    functions = tuple(
        (one.address, one.driver, one.vfs, one.num_vfs, one.total_vfs, one.iommu_group)
        for one in inventory.functions
        if one.address in family
    )
    vgpus = tuple(
        (one.address, one.configured)
        for one in inventory.vgpus
        if one.configured and one.parent == wish.address
    )
    needed = tuple(sorted((a, why) for a, why in inventory.critical.items() if a in family))
    return wish.count, functions, vgpus, needed, inventory.nvidia_driver
