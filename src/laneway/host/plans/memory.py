"""What must be remembered of devices while plans change them.

A driver is noted before its function is reserved for vfio-pci, the owner of a USB device's node
before it is given away, and the name of a vGPU type before a card may be full of it. What may be
forgotten is read from hardware once a plan has ended, however it ended, so that no way out of a
plan can be missed.
"""

from __future__ import annotations

import asyncio

from laneway.core.plan import OverrideDriver, Plan, SetNodeOwner, SetVgpuType, Step, Unbind
from laneway.core.usability import VFIO_DRIVER
from laneway.core.vgpu.wish import NO_VGPU
from laneway.host.hardware import Hardware
from laneway.host.leaving import read_locked
from laneway.host.plans.operations.access import driver_of, function_home
from laneway.host.plans.operations.operation import State
from laneway.host.plans.operations.pci import override_state
from laneway.host.plans.operations.usb import owner_state


def before(hardware: Hardware, plan: Plan, step: Step) -> None:
    """Note what a step is about to make unreadable. Raises OSError or StateError."""
    match step:
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
    reserved = {step.function for step in plan.steps if isinstance(step, OverrideDriver)}
    # A plan may have ended because the kernel waits for a user; to ask would be to wait as well.
    locked = await asyncio.to_thread(read_locked, hardware.host, reserved)
    for step in plan.steps:
        match step:
            case OverrideDriver(function) if function not in locked:
                free = OverrideDriver(function, "", VFIO_DRIVER)
                # Virtual functions go, and another one may come to the address of one that went.
                there = hardware.host.exists(function_home(function))
                if not there or (await override_state(hardware, free)).state is State.AFTER:
                    hardware.state.forget(function)
            case SetNodeOwner(port):
                original = hardware.state.usb_originals.get(port)
                if original and await _is_owned_by(hardware, step, original):
                    hardware.state.forget_usb(port)


async def _is_owned_by(hardware: Hardware, step: SetNodeOwner, owner: tuple[int, int]) -> bool:
    uid, gid = owner
    given = SetNodeOwner(step.port, step.bus, step.number, uid, gid, -1, -1)
    return (await owner_state(hardware, given)).state is State.AFTER
