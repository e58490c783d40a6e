"""Which users a step would affect: asked right before it, and answered by what is open now.

A plan was made from an older look, and virtual machines start at any time. To take a device from
its user waits in the kernel for as long as that user likes, in the case of virtual functions with
locks of the whole PCI core, so that a node could not even be looked at any more. Every kind of step
is decided here, and the type checker refuses one that is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import assert_never

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    LoadModule,
    OverrideDriver,
    Probe,
    RemoveMdev,
    ResetFunction,
    SetAutoprobe,
    SetBootArguments,
    SetConsole,
    SetFramebuffer,
    SetMigMode,
    SetMixedSize,
    SetNodeOwner,
    SetVfCount,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
    WriteConfiguration,
    subject,
)
from laneway.core.refusals import DeviceHeld
from laneway.core.situation import Holder, ends, pids
from laneway.host.hardware import Hardware
from laneway.host.holders import read_holders, usb_holders
from laneway.host.paths import as_address
from laneway.host.plans.operations.access import link
from laneway.host.plans.operations.sriov import vf_links


async def affected_holders(hardware: Hardware, step: Step) -> DeviceHeld | None:
    """Why a step must not be done now; None when nothing uses what it takes away."""
    # Looking through all processes of a node takes a while.
    return _held(step, await asyncio.to_thread(_users, hardware, step))


async def awaited_holders(hardware: Hardware, step: Step) -> DeviceHeld | None:
    """Whom the kernel still waits for where hardware shows a step as done; None for no one.

    What is being removed is gone from sight before it is gone.
    """
    match step:
        case Unbind(function) | RemoveMdev(function) | SetVgpuType(function, "0"):
            functions = {function}
        case SetVfCount(function, 0) | SwitchGpuVfs(function, False):
            functions = _vfs(hardware, function)
        # The others take effect with their write, or add something.
        case (
            SetVgpuType()
            | SetVfCount()
            | SwitchGpuVfs()
            | SetVgpuParameters()
            | ResetFunction()
            | DestroyGpuInstance()
            | DestroyComputeInstance()
            | SetMigMode()
            | SetNodeOwner()
            | LoadModule()
            | Probe()
            | CreateGpuInstance()
            | CreateComputeInstance()
            | CreateMdev()
            | OverrideDriver()
            | SetAutoprobe()
            | SetMixedSize()
            | SetConsole()
            | SetFramebuffer()
            | SetBootArguments()
            | WriteConfiguration()
        ):
            return None
        case _:
            assert_never(step)
    return _held(step, await asyncio.to_thread(_of, hardware, functions))


def _held(step: Step, users: Iterable[Holder]) -> DeviceHeld | None:
    holders = tuple(dict.fromkeys(users))
    texts = tuple(dict.fromkeys(holder.text for holder in holders))
    return DeviceHeld(subject(step), texts, pids(holders), ends(holders)) if texts else None


def _users(hardware: Hardware, step: Step) -> list[Holder]:
    """Who would miss something, or find it changed, once the step is done."""
    match step:
        # A mediated device is below its function, also while it is being removed, so its users are
        # among the function's. A reset may reach all that shares the slot, so that a user of the
        # IOMMU group counts though the function itself has no driver.
        case (
            Unbind(function)
            | ResetFunction(function)
            | RemoveMdev(function)
            | SetVgpuType(function, "0")
            | SetVgpuParameters(function)
            | DestroyGpuInstance(function)
            | DestroyComputeInstance(function)
        ):
            return _of(hardware, {function})
        # Another driver binding of the GPU itself, either way.
        case SwitchGpuVfs(function) | SetMigMode(function):
            return _of(hardware, {function, *_vfs(hardware, function)})
        case SetVfCount(function, 0, used=used):
            own = [] if used else _by_the_node(hardware, function)
            return [*own, *_of(hardware, _vfs(hardware, function))]
        case SetVfCount(function, used=used):
            return [] if used else _by_the_node(hardware, function)
        case SetNodeOwner(port):
            return [
                one
                for users in usb_holders(hardware.host, [port], hardware.workloads).values()
                for one in users
            ]
        # They add what was not there: a module, a driver for a function without one, an instance
        # on free slices, a vGPU on a function without one (the driver refuses another).
        case LoadModule() | Probe() | CreateGpuInstance() | CreateComputeInstance():
            return []
        case CreateMdev() | SetVgpuType():
            return []
        # They say what happens the next time that a driver is looked for.
        case OverrideDriver() | SetAutoprobe():
            return []
        # The driver itself refuses it while any vGPU exists, and nothing else knows of it.
        case SetMixedSize():
            return []
        # The kernel alone draws on them; a user at the display is warned by the plan.
        case SetConsole() | SetFramebuffer():
            return []
        # They change files that are read at the next boot.
        case SetBootArguments() | WriteConfiguration():
            return []
        case _:
            assert_never(step)


def _of(hardware: Hardware, functions: Iterable[PciAddress]) -> list[Holder]:
    found = read_holders(hardware.host, functions, hardware.workloads)
    return [holder for users in found.values() for holder in users]


def _by_the_node(hardware: Hardware, card: PciAddress) -> list[Holder]:
    """How the node uses a card whose number of virtual functions changes, which resets it.

    Processes that have it open go on after that.
    """
    kinds = ("network", "mount", "swap")
    return [holder for holder in _of(hardware, {card}) if holder.kind in kinds]


def _vfs(hardware: Hardware, function: PciAddress) -> set[PciAddress]:
    try:
        names = {link(hardware, path) for path in vf_links(hardware, function)}
    except FileNotFoundError:
        return set()
    return {address for name in names if (address := as_address(name)) is not None}
