"""Which functions a kernel event concerns, decided from the event and what is known alone.

An event names one device; a function changes along with others. What cannot be said for certain
is a whole scan, which is always right and only dearer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from laneway.core.kernel.uevent import Uevent
from laneway.core.pci import PciAddress, PciFunction
from laneway.host.paths import functions_on
from laneway.host.vgpu import card_of

_SUBSYSTEMS = frozenset({"pci", "usb", "mdev", "mdev_bus", "net", "block", "iommu", "vfio"})
"""Subsystems whose events can change an inventory; the kernel has dozens more."""
_ON_A_FUNCTION = frozenset({"pci", "usb", "mdev", "mdev_bus", "net", "block"})
"""Those whose events concern nothing but the device on their path."""


def matters(event: Uevent) -> bool:
    """Whether an event can change an inventory. Every pod that starts makes virtual interfaces."""
    if event.action == "overflow":
        return True
    return event.subsystem in _SUBSYSTEMS and not event.devpath.startswith("/devices/virtual/")


def concerned(event: Uevent) -> PciAddress | None:
    """The function on whose device an event is; None where a whole scan must tell what changed."""
    on = functions_on(event.devpath)
    return on[-1] if on and event.subsystem in _ON_A_FUNCTION else None


def dependents(
    functions: Iterable[PciFunction], changed: Collection[PciAddress]
) -> set[PciAddress]:
    """The functions that can change when some others have, and those themselves.

    Of each these are its PF, its VFs, the bridge above, which shows the link to it, and the members
    of its IOMMU group.
    """
    functions = tuple(functions)
    groups = {one.iommu_group for one in functions if one.address in changed} - {None}
    found = set(changed)
    for one in functions:
        if one.address in changed:
            found.update(one.vfs)
            found.update(other for other in (one.physfn, one.upstream) if other)
        elif one.iommu_group in groups or one.physfn in changed:
            found.add(one.address)
    return found


def siblings(functions: Iterable[PciFunction], cards: Collection[PciAddress]) -> set[PciAddress]:
    """The VFs of GPUs that can carry vGPUs: what each can have depends on the others."""
    if not cards:
        return set()
    return {one.address for one in functions if card_of(one) in cards}
