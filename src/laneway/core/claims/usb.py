"""Which USB device bears which name, while claims remember devices by more than their name.

A USBDevice is named for the number that its device got when it was plugged in, and a claim has the
same name. Plugged in again, a device has another number; a VM that names it would lose it. So a
claim remembers its device, and where that is clearly found again it keeps its name: by ids and
serial number wherever it is plugged in, without a serial number by ids and port. No device has two
names, and none gets a name that is claimed for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from laneway.core import names
from laneway.core.inventory import UsbDevice


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The device that a claim was made for; ids are empty until it was seen."""

    vendor: str = ""
    product: str = ""
    serial: str = ""
    port: str = ""


def remembered(device: UsbDevice) -> Remembered:
    """What a claim remembers of a device."""
    return Remembered(
        vendor=device.vendor, product=device.product, serial=device.serial, port=device.port
    )


def named(
    devices: Iterable[UsbDevice], node: str, claims: Mapping[str, Remembered]
) -> dict[str, UsbDevice]:
    """All devices by name; a claim whose device is not among them is missing.

    A device whose own name is claimed for another device has none meanwhile.
    """
    free = {device.port: device for device in devices}
    found: dict[str, UsbDevice] = {}
    for name, claimed in sorted(claims.items()):
        if claimed.vendor and (device := _same(claimed, free.values())):
            found[name] = free.pop(device.port)
    for device in list(free.values()):
        name = names.usb_object_name(node, device.vendor, device.product, device.bus, device.number)
        if not claims.get(name, Remembered()).vendor:
            found[name] = device
    return found


def candidates(claimed: Remembered, devices: Iterable[UsbDevice]) -> tuple[UsbDevice, ...]:
    """The devices of the same kind."""
    ids = claimed.vendor, claimed.product
    return tuple(one for one in devices if (one.vendor, one.product) == ids)


def _same(claimed: Remembered, devices: Iterable[UsbDevice]) -> UsbDevice | None:
    """The device that was claimed, if it is clear which one that is.

    There are models of which every device has the same serial number: then the port decides.
    """
    alike = [one for one in candidates(claimed, devices) if one.serial == claimed.serial]
    in_place = [one for one in alike if one.port == claimed.port]
    if in_place:
        return in_place[0]
    return alike[0] if claimed.serial and len(alike) == 1 else None
