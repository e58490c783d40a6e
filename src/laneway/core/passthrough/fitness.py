"""Whether a PCI function can be worked with at all.

It is there, it answers, its last reset worked, and the kernel does not wait for a user of it.

Every decision about a function asks here first. Something that left the bus, that reads as all ones
(a card that fell off the bus keeps its sysfs directory, and every access to it fails or hangs), or
that failed its reset is refused in the same words whatever was requested.
"""

from __future__ import annotations

from laneway.core.pci import PciAddress, PciFunction
from laneway.core.refusals import (
    DeviceHeld,
    DeviceNotFound,
    DeviceQuarantined,
    DeviceUnusable,
    Refusal,
)
from laneway.core.situation import Situation, ends, pids

_REMEDY = (
    "Read its errors in the kernel log: dmesg. It may need a reboot, a power cycle, or to be "
    "reseated."
)


def find(address: PciAddress, situation: Situation) -> PciFunction | None:
    """The function as the last scan saw it."""
    return situation.inventory.function(address)


def unfit(address: PciAddress, situation: Situation) -> tuple[Refusal, ...]:
    """Everything that forbids any work on a function; nothing for a healthy one."""
    device = str(address)
    if find(address, situation) is None:
        for error in situation.inventory.errors:
            if error.device == device:
                return (DeviceUnusable(device, (error.message,), (_REMEDY,)),)
        return (DeviceNotFound(device),)
    found: list[Refusal] = []
    if address in situation.silent:
        reason = "it no longer answers: its configuration space reads as all ones"
        found.append(DeviceUnusable(device, (reason,), (_REMEDY,)))
    if address in situation.locked:
        users = situation.holders.get(address, ())
        texts = tuple(user.text for user in users)
        found.append(DeviceHeld(device, texts, pids(users), ends(users)))
    if (error_text := situation.quarantined.get(address)) is not None:
        found.append(DeviceQuarantined(device, error_text))
    return tuple(found)
