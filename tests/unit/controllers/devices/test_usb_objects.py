"""USBDevice objects: which there are, and which device each of them is."""

from __future__ import annotations

from msgspec.structs import replace

from laneway.api import ObjectMeta, USBDeviceClaim, USBDeviceClaimStatus
from laneway.controllers.devices import usb
from laneway.core.inventory import Inventory
from support.devices import stick

STICK = stick("1-4", number=3)
NAME = "node1-0781-5583-001003"


def claim(node: str) -> USBDeviceClaim:
    status = USBDeviceClaimStatus(
        node_name=node, vendor_id="0781", product_id="5583", serial="4C53", port="1-4"
    )
    return USBDeviceClaim(metadata=ObjectMeta(name=NAME), status=status)


def test_an_object_tells_its_device_and_where_that_is() -> None:
    seats = usb.seats(Inventory(usb=(STICK,)), "node1", ())
    [(name, shown)] = usb.wanted(Inventory(usb=(STICK,)), "node1", seats.devices).items()
    assert name == NAME
    assert (shown.status.port, shown.status.serial) == ("1-4", "4C53")
    assert shown.status.resource_name == f"kubevirt.io/{NAME}"


def test_a_claimed_device_keeps_its_object_when_it_is_plugged_in_again() -> None:
    moved = Inventory(usb=(replace(STICK, port="1-2", number=9),))
    ours = usb.seats(moved, "node1", (claim("node1"),))
    assert list(ours.devices) == [NAME]
    others = usb.seats(moved, "node1", (claim("node2"),))
    assert list(others.devices) == ["node1-0781-5583-001009"]


def test_what_is_missing_is_reported_with_where_its_like_is() -> None:
    other = Inventory(usb=(replace(STICK, port="1-2", number=9, serial="other"),))
    seats = usb.seats(other, "node1", (claim("node1"),))
    missing = seats.missing(NAME, other)
    assert (missing.port, missing.candidates) == ("1-4", ("1-2",))
