"""Devices of plain kinds, for tests that care for one or two facts about them."""

from __future__ import annotations

from typing import Any

from laneway.core import names
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.inventory import UsbDevice
from laneway.core.pci import PciAddress, PciFunction


def function(address: PciAddress, **facts: Any) -> PciFunction:
    """An NVIDIA A2, on no driver and in no group unless that is said."""
    return PciFunction(
        address=address,
        **({"vendor": "10de", "device": "25b6", "class_code": "030200"} | facts),
    )


def function_offer(address: PciAddress, /, **facts: Any) -> Offer:
    """A whole card that may be allocated; in no group by default."""
    known = {
        "resource": "acme.com/gpu",
        "id": str(address),
        "form": Form.PCI,
        "kind": "PCIDevice",
        "name": names.pci_object_name("node1", address),
        "address": address,
        "card": address,
    }
    return Offer(**(known | facts))


def stick(port: str = "1-3", bus: int = 1, number: int = 4, **facts: Any) -> UsbDevice:
    """A USB stick that differs from others."""
    known = {
        "vendor": "0781",
        "product": "5583",
        "class_code": "08",
        "serial": "4C53",
        "device_path": f"/dev/bus/usb/{bus:03d}/{number:03d}",
    }
    return UsbDevice(port=port, bus=bus, number=number, **(known | facts))
