"""Which functions must be judged again after an inventory has changed, and shown again.

A judgement speaks of a function, of its PF, of the vGPUs on it and on its VFs, and of its IOMMU
group. So what has changed concerns itself, its VFs, and the group of each; all others are judged as
before. On a server with hundreds of functions an event about one device leaves only a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress


def judged_again(before: Inventory, after: Inventory) -> frozenset[PciAddress]:
    """The functions of two inventories, of which the second may say something else than the first.

    This is about what keeps a function from VMs (`usability.judge_all`), names of interfaces, and
    what cannot be read; the displays of the node only add a warning, which is not published.
    """
    changed = _changed(before, after)
    if not changed:
        return frozenset()
    # What is the same in both need not be passed twice.
    functions = (*_left(before.functions, after.functions), *after.functions)
    changed |= {one.address for one in functions if one.physfn in changed}
    groups = {one.iommu_group for one in functions if one.address in changed} - {None}
    changed |= {one.address for one in functions if one.iommu_group in groups}
    return frozenset(changed)


def _changed(before: Inventory, after: Inventory) -> set[PciAddress]:
    functions = _different(before.functions, after.functions)
    vgpus = _different(before.vgpus, after.vgpus)
    interfaces = _different(before.interfaces, after.interfaces)
    changed = {one.address for one in (*functions, *interfaces)}
    changed.update(one.parent for one in vgpus)  # and with it all functions that carry vGPUs
    changed |= _differing_keys(before.critical, after.critical)
    if before.errors != after.errors:
        failed = {one.device for one in (*before.errors, *after.errors)}
        changed |= {one.address for one in after.functions if str(one.address) in failed}
    return changed


def _different(before: Sequence[Any], after: Sequence[Any]) -> Iterable[Any]:
    """What is in one only; what a look has left alone is the same object, and quickly passed."""
    if before is after:
        return ()
    old = {one.address: one for one in _left(before, after)}
    new = {one.address: one for one in _left(after, before)}
    found = [one for at, one in old.items() if at not in new]
    for at, one in new.items():
        was = old.get(at)
        if was is not one and was != one:
            found += [one] if was is None else [was, one]
    return found


def _left(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Those that are not the very same objects as others."""
    same = frozenset(map(id, others))
    return [one for one in some if id(one) not in same]


def _differing_keys(
    before: Mapping[PciAddress, object], after: Mapping[PciAddress, object]
) -> set[PciAddress]:
    if before is after:
        return set()
    return {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
