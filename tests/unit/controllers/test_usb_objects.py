"""USBDevice objects: what a scan may change of them, and which it may remove."""

from __future__ import annotations

import msgspec

from laneway.controllers.devices import usb
from laneway.core.inventory import DeviceError, Inventory, UsbDevice

STICK = UsbDevice(
    port="1-4",
    vendor="0781",
    product="5583",
    bus=1,
    number=3,
    class_code="08",
    device_path="/dev/bus/usb/001/003",
)


def test_what_a_claim_wrote_stays_when_the_device_is_looked_at_again() -> None:
    [(name, wanted)] = usb.wanted(Inventory(usb=(STICK,)), "node1").items()
    claimed = msgspec.structs.replace(
        wanted.status, enabled=True, status="orphaned", message="detach it", description="old"
    )
    stored = msgspec.structs.replace(wanted, status=claimed)

    status = usb.status(stored, wanted)

    assert name == "node1-0781-5583-001003"
    assert (status.enabled, status.status, status.message) == (True, "orphaned", "detach it")
    assert status.description == wanted.status.description != "old"


def test_a_claimed_device_that_was_pulled_out_stays_and_others_go() -> None:
    [wanted] = usb.wanted(Inventory(usb=(STICK,)), "node1").values()
    claimed = msgspec.structs.replace(
        wanted, status=msgspec.structs.replace(wanted.status, enabled=True)
    )
    unreadable = Inventory(errors=(DeviceError("1-4", "EIO"),))

    assert usb.keep(claimed, Inventory())
    assert not usb.keep(wanted, Inventory())
    assert usb.keep(wanted, unreadable)
