"""Giving a PCI function to vfio-pci for a virtual machine, and giving it back to the node.

What VFIO isolates is an IOMMU group, so a group goes as a whole or not at all: everything in it but
bridges leaves its driver, is reserved for vfio-pci by `driver_override` (never by `new_id`, which
claims every present and later device of the kind) and is probed. Everything that speaks against it
is found before the first step; should a step fail all the same, the plan is undone as a whole. A
reservation for another driver is set on purpose, so it is neither overwritten nor
removed.

A release trusts only what is: a function on vfio-pci, or one that has no driver because a plan
was interrupted: it is reserved for vfio-pci, or known to have had one. It is reset while no driver
has it, so that nothing of its last user reaches the next, and then goes to whichever driver wants
it: what it was on before may have been removed since. All members of the group are free before the
first is reset: one that fails its reset goes to quarantine, and no group member is given to the
node in that state.
"""

from __future__ import annotations

from laneway.core.decision import Decision, conclude
from laneway.core.passthrough.fitness import find, unfit
from laneway.core.passthrough.iommu_group import group_members
from laneway.core.passthrough.usability import (
    VFIO_DRIVER,
    Effect,
    judge_function,
    remedy,
    text,
)
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    LoadModule,
    OverrideDriver,
    Probe,
    ResetFunction,
    Satisfied,
    SetConsole,
    SetFramebuffer,
    Step,
    Unbind,
)
from laneway.core.refusals import (
    DeviceUnusable,
    DriverReserved,
    Refusal,
    VfioMissing,
)
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import held

_MODULAR_CONSOLE = "(M)"
"""How the kernel marks console drivers that can be detached; those of the system cannot."""


def bind(address: PciAddress, situation: Situation) -> Decision:
    """Have vfio-pci drive a function and everything that goes along in its IOMMU group."""
    function = find(address, situation)
    if function is None:
        return unfit(address, situation)
    members = group_members(function, situation.inventory)
    against = [refusal for member in members for refusal in unfit(member.address, situation)]
    coming = [member for member in members if member.driver != VFIO_DRIVER]
    if not (coming or against):
        return Satisfied()
    against += _unusable(function, situation)
    needed = situation.inventory.critical
    for one in coming:
        override = situation.overrides.get(one.address, "")
        if override not in ("", VFIO_DRIVER):
            against.append(DriverReserved(str(one.address), override))
        against += held(one.address, situation, needed=one.address in needed)
    if situation.vfio_pci == "missing":
        against.append(VfioMissing(situation.kernel))
    return conclude(against, _bind_steps(members, coming, situation))


def release(address: PciAddress, situation: Situation) -> Decision:
    """Give everything of a function's IOMMU group that vfio-pci has back to the node."""
    function = find(address, situation)
    if function is None:
        return unfit(address, situation)
    members = group_members(function, situation.inventory)
    leaving = [member for member in members if _taken(member, situation)]
    against = [refusal for member in leaving for refusal in unfit(member.address, situation)]
    against += _in_use(leaving, situation)
    return conclude(against, _release_steps(leaving, situation))


def _taken(member: PciFunction, situation: Situation) -> bool:
    if member.driver:
        return member.driver == VFIO_DRIVER
    # Taken from its driver by a plan that was given up and took effect later.
    if member.address in situation.locked or situation.originals.get(member.address):
        return True
    return situation.overrides.get(member.address) == VFIO_DRIVER


def _unusable(function: PciFunction, situation: Situation) -> list[Refusal]:
    """The judgement that is published about the function, as a refusal."""
    reasons = judge_function(function, situation.inventory)
    blocking = [reason for reason in reasons if reason.effect is Effect.BLOCKS]
    if not blocking:
        return []
    remedies = dict.fromkeys(filter(None, map(remedy, blocking)))
    return [DeviceUnusable(str(function.address), tuple(map(text, blocking)), tuple(remedies))]


def _in_use(members: list[PciFunction], situation: Situation) -> list[Refusal]:
    """Who uses what the plan touches.

    One without a driver counts too: while its unbinding waits for a virtual machine to close it,
    the kernel shows it so, and whatever touches it then waits as well.
    """
    return [refusal for member in members for refusal in held(member.address, situation)]


def _bind_steps(
    members: list[PciFunction], coming: list[PciFunction], situation: Situation
) -> list[Step]:
    steps: list[Step] = []
    if situation.vfio_pci == "loadable":
        steps.append(LoadModule(VFIO_DRIVER))
    if any(member.address in situation.inventory.displays for member in members):
        steps += _detach_console(situation)
    for member in coming:
        override = situation.overrides.get(member.address, "")
        if override and member.driver:
            # Reserved for another driver than it has, it could not go back when this is undone.
            steps.append(OverrideDriver(member.address, "", override))
            override = ""
        if member.driver:
            steps.append(Unbind(member.address, member.driver))
        if override != VFIO_DRIVER:
            steps.append(OverrideDriver(member.address, VFIO_DRIVER, override))
        steps.append(Probe(member.address, VFIO_DRIVER))
    return steps


def _detach_console(situation: Situation) -> list[Step]:
    """Consoles first: they draw through the framebuffer, which keeps the GPU's memory."""
    consoles: list[Step] = [
        SetConsole(console.number, console.name, attached=False)
        for console in situation.consoles
        if console.attached and console.name.startswith(_MODULAR_CONSOLE)
    ]
    return consoles + [
        SetFramebuffer(framebuffer.device, framebuffer.driver, bound=False)
        for framebuffer in situation.framebuffers
    ]


def _release_steps(leaving: list[PciFunction], situation: Situation) -> list[Step]:
    steps: list[Step] = [
        Unbind(member.address, member.driver) for member in leaving if member.driver
    ]
    steps += [ResetFunction(member.address) for member in leaving if member.reset_methods]
    for member in leaving:
        if situation.overrides.get(member.address) == VFIO_DRIVER:
            steps.append(OverrideDriver(member.address, "", VFIO_DRIVER))
        original = situation.originals.get(member.address)
        if original and original in situation.loadable and LoadModule(original) not in steps:
            steps.append(LoadModule(original))
        # Something that had no driver when it was taken gets none: it was so on purpose.
        if original != "":
            steps.append(Probe(member.address, ""))
    return steps
