"""What must be remembered of devices while plans change them.

A driver is noted before its function is taken from it for vfio-pci, the owner of a USB device's
node before it is given away, and the name of a vGPU type before a card may be full of it. What may
be forgotten is read from hardware once a plan has ended, however it ended, so that no way out of a
plan can be missed.

A plan that was given up may still take effect: the kernel releases the function when no process
holds it any more. So what was taken and has neither driver nor reservation is not as it was.
"""

from __future__ import annotations

import asyncio

from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    OverrideDriver,
    Plan,
    Probe,
    SetNodeOwner,
    SetVgpuType,
    Step,
    Unbind,
)
from laneway.core.vgpu.desired import NO_VGPU
from laneway.host.hardware import Hardware
from laneway.host.leaving import read_locked
from laneway.host.plans.operations.access import driver_of, function_home
from laneway.host.plans.operations.operation import State
from laneway.host.plans.operations.pci import override_state
from laneway.host.plans.operations.usb import owner_state


def before(hardware: Hardware, plan: Plan, step: Step) -> None:
    """Note what a step is about to make unreadable. Raises OSError or StateError."""
    match step:
        case Unbind(function, driver) if driver != VFIO_DRIVER and _is_taken(function, plan):
            hardware.state.remember(function, driver)
        case OverrideDriver(function, driver) if driver == VFIO_DRIVER:
            taken = (
                s.driver for s in plan.steps if isinstance(s, Unbind) and s.function == function
            )
            driver_now = driver_of(hardware, function)
            original = next(
                (name for name in (*taken, driver_now) if name not in ("", VFIO_DRIVER)), ""
            )
            hardware.state.remember(function, original)
        case SetVgpuType(_, type_id, _, profile) if type_id != NO_VGPU:
            hardware.state.remember_profile(type_id, profile)
        case SetNodeOwner():
            hardware.state.remember_usb(step.port, (step.before_uid, step.before_gid))


async def settle(hardware: Hardware, plan: Plan) -> None:
    """Forget what is as it was. Raises OSError or StateError."""
    moved = {step.function for step in plan.steps if isinstance(step, OverrideDriver | Probe)}
    # A plan may have ended because the kernel waits for a user; to ask would be to wait as well.
    locked = await asyncio.to_thread(read_locked, hardware.host, moved)
    for step in plan.steps:
        match step:
            case OverrideDriver(function) | Probe(function) if function not in locked:
                # Virtual functions go, and another one may come to the address of one that went.
                there = hardware.host.exists(function_home(function))
                if not there or await _is_back(hardware, function, plan):
                    hardware.state.forget(function)
            case SetNodeOwner(port):
                original = hardware.state.usb_originals.get(port)
                if original and await _is_owned_by(hardware, step, original):
                    hardware.state.forget_usb(port)


def _is_taken(function: PciAddress, plan: Plan) -> bool:
    """Whether a plan gives a function to vfio-pci."""
    reserving = (step for step in plan.steps if isinstance(step, OverrideDriver))
    return any((step.function, step.driver) == (function, VFIO_DRIVER) for step in reserving)


async def _is_back(hardware: Hardware, function: PciAddress, plan: Plan) -> bool:
    free = OverrideDriver(function, "", VFIO_DRIVER)
    if (await override_state(hardware, free)).state is not State.AFTER:
        return False
    if not _is_taken(function, plan):
        return True  # Where no driver took it when it was released, that is how it stays.
    return bool(driver_of(hardware, function)) or not hardware.state.originals.get(function)


async def _is_owned_by(hardware: Hardware, step: SetNodeOwner, owner: tuple[int, int]) -> bool:
    uid, gid = owner
    given = SetNodeOwner(step.port, step.bus, step.number, uid, gid, -1, -1)
    return (await owner_state(hardware, given)).state is State.AFTER
