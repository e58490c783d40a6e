"""Device nodes of USB devices.

A device that was unplugged and plugged in again has another node, and its old node's name may be
another device's: the port must still carry the device that the step names.
"""

from __future__ import annotations

from laneway.core.plan import SetNodeOwner
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.access import component, text
from laneway.host.plans.operations.operation import Limits, Operation, Seen, compare, gone


async def owner_state(hardware: Hardware, step: SetNodeOwner) -> Seen:
    home = f"/sys/bus/usb/devices/{component(step.port)}"
    try:
        there = text(hardware, f"{home}/busnum"), text(hardware, f"{home}/devnum")
        if there != (str(step.bus), str(step.number)):
            return gone(f"USB device {step.bus}-{step.number} at port {step.port}")
        uid, gid = hardware.host.owner(_node(step))
    except FileNotFoundError:
        return gone(f"USB device at port {step.port}")
    return compare(
        f"{uid}:{gid}",
        before=f"{step.before_uid}:{step.before_gid}",
        after=f"{step.uid}:{step.gid}",
    )


async def set_owner(hardware: Hardware, step: SetNodeOwner, _limits: Limits) -> None:
    hardware.host.set_owner(_node(step), step.uid, step.gid)


def _node(step: SetNodeOwner) -> str:
    return f"/dev/bus/usb/{step.bus:03d}/{step.number:03d}"


OPERATIONS: dict[type, Operation] = {SetNodeOwner: Operation(owner_state, set_owner)}
