"""Who would be hurt by a step: asked right before it, and answered by what is open now.

A plan was made from an older look, and virtual machines start at any time. To take a device from
its user waits in the kernel for as long as that user likes, in the case of virtual functions with
locks of the whole PCI core, so that a node could not even be looked at any more.
"""

from __future__ import annotations

import asyncio

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    DestroyComputeInstance,
    DestroyGpuInstance,
    RemoveMdev,
    SetMigMode,
    SetVfCount,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
    subject,
)
from laneway.core.refusals import DeviceHeld
from laneway.host.hardware import Hardware
from laneway.host.holders import read_holders
from laneway.host.paths import as_address
from laneway.host.plans.operations.access import link
from laneway.host.plans.operations.sriov import vf_links


async def users_hurt(hardware: Hardware, step: Step) -> DeviceHeld | None:
    """Why a step must not be done now; None when nobody uses what it takes away."""
    functions = _taken_away(hardware, step)
    if not functions:
        return None
    # Looking through all processes of a node takes a while. A mediated device is below its
    # function, also while it is being removed, so its users are among the function's.
    users = await asyncio.to_thread(read_holders, hardware.host, functions)
    texts = tuple(dict.fromkeys(holder.text for found in users.values() for holder in found))
    return DeviceHeld(subject(step), texts) if texts else None


def _taken_away(hardware: Hardware, step: Step) -> set[PciAddress]:
    """Functions whose users would miss something, or find it changed, once the step is done."""
    match step:
        case (
            Unbind(function)
            | RemoveMdev(function)
            | SetVgpuType(function, "0")
            | SetVgpuParameters(function)
            | DestroyGpuInstance(function)
            | DestroyComputeInstance(function)
        ):
            return {function}
        case SetVfCount(function, 0) | SwitchGpuVfs(function, False):
            return _vfs(hardware, function)
        case SetMigMode(function):
            return {function, *_vfs(hardware, function)}
        case _:
            return set()


def _vfs(hardware: Hardware, function: PciAddress) -> set[PciAddress]:
    try:
        names = {link(hardware, path) for path in vf_links(hardware, function)}
    except FileNotFoundError:
        return set()
    return {address for name in names if (address := as_address(name)) is not None}
