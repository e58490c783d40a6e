"""Claims of USB devices: QEMU may open the device's node, and afterwards only the node may.

A claim that lasts is about the device that the user saw at a port. Plugged in again, a device has
another number and its port may hold something else altogether, so such a claim is refused rather
than given whatever is there now. Giving back needs no such care: the device node of a device that
was plugged in again is new too, and no VM has it.
"""

from __future__ import annotations

from laneway.core.decision import Decision, conclude
from laneway.core.inventory import UsbDevice
from laneway.core.passthrough.usability import Effect, judge_usb, remedy, text
from laneway.core.plan import Satisfied, SetNodeOwner
from laneway.core.refusals import (
    DeviceHeld,
    DeviceNotFound,
    DeviceUnusable,
    HoldersUnknown,
    Refusal,
    UsbDeviceReplaced,
)
from laneway.core.situation import Situation, ends, pids

QEMU = (107, 107)
"""User and group that KubeVirt's QEMU runs as, in every release."""


def usb_device(port: str, situation: Situation) -> UsbDevice | None:
    """What is plugged in at a port now."""
    return next((device for device in situation.inventory.usb if device.port == port), None)


def claim(wanted: UsbDevice | str, situation: Situation) -> Decision:
    """Let QEMU open a USB device: the very one that was seen when the claim was made.

    Given a port only, it is whatever is plugged in there now: the user has just looked.
    """
    port = wanted if isinstance(wanted, str) else wanted.port
    device = usb_device(port, situation)
    if device is None:
        return (DeviceNotFound(port),)
    if isinstance(wanted, UsbDevice) and _identity(device) != _identity(wanted):
        return (UsbDeviceReplaced(port, _words(wanted), _words(device)),)
    against: list[Refusal] = []
    blocking = [r for r in judge_usb(device, situation.inventory) if r.effect is Effect.BLOCKS]
    if blocking:
        remedies = tuple(filter(None, map(remedy, blocking)))
        against.append(DeviceUnusable(device.port, tuple(map(text, blocking)), remedies))
    owner = situation.usb_owners.get(device.port)
    if owner is None:
        reason = f"its device node {device.device_path} is missing"
        against.append(DeviceUnusable(device.port, (reason,), ("Plug it in again.",)))
        return conclude(against, ())
    if owner == QEMU:
        return conclude(against, ())
    against += _held(device, situation)
    return conclude(against, (_handover(device, owner, QEMU),))


def release(port: str, situation: Situation) -> Decision:
    """Give a USB device's node to whom it belonged before the claim.

    A node that is not QEMU's, or that QEMU had before Laneway came, is left as it is.
    """
    device = usb_device(port, situation)
    original = situation.usb_originals.get(port)
    if device is None or original is None or situation.usb_owners.get(port) != QEMU:
        return Satisfied()
    steps = () if original == QEMU else (_handover(device, QEMU, original),)
    return conclude(_held(device, situation) if steps else (), steps)


def _handover(device: UsbDevice, before: tuple[int, int], after: tuple[int, int]) -> SetNodeOwner:
    return SetNodeOwner(device.port, device.bus, device.number, *after, *before)


def _held(device: UsbDevice, situation: Situation) -> list[Refusal]:
    if situation.visibility_error:
        return [HoldersUnknown(situation.visibility_error)]
    holders = situation.usb_holders.get(device.port, ())
    texts = tuple(holder.text for holder in holders)
    return [DeviceHeld(device.port, texts, pids(holders), ends(holders))] if texts else []


def _identity(device: UsbDevice) -> tuple[str | int, ...]:
    return device.vendor, device.product, device.serial, device.bus, device.number


def _words(device: UsbDevice) -> str:
    return f"{device.vendor}:{device.product} at {device.bus:03d}/{device.number:03d}"
