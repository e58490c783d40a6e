"""USB devices: what identifies them, and what is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from laneway.core.inventory import UsbDevice
from laneway.core.pci import PciAddress
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.host.usb import read_owners
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

MakeHost = Callable[..., SimulatedHost]
Address = Callable[[str], PciAddress]

STICK = """
    P: /devices/pci0000:00/0000:00:14.0/usb3
    E: SUBSYSTEM=usb
    A: idVendor=1d6b\\n

    P: /devices/pci0000:00/0000:00:14.0/usb3/3-0:1.0
    E: SUBSYSTEM=usb

    P: /devices/pci0000:00/0000:00:14.0/usb3/3-1/3-1.2
    E: SUBSYSTEM=usb
    A: idVendor=0781\\n
    A: idProduct=5581\\n
    A: busnum=3\\n
    A: devnum=12\\n
    A: bDeviceClass=00\\n
    A: product=Ultra\\n
    A: serial=4C530001\\n

    P: /devices/pci0000:00/0000:00:14.0/usb3/3-1/3-1.2/3-1.2:1.0
    E: SUBSYSTEM=usb
    A: bInterfaceClass=08\\n
"""


def test_a_device_with_its_identity(host_of: MakeHost, address: Address) -> None:
    inventory = scan(host_of(STICK))
    assert inventory.usb == (
        UsbDevice(
            port="3-1.2",
            vendor="0781",
            product="5581",
            bus=3,
            number=12,
            class_code="08",  # its own is 00, so the interface's
            product_name="Ultra",
            serial="4C530001",
            device_path="/dev/bus/usb/003/012",
            controller=address("00:14.0"),
        ),
    )


def test_the_recorded_server(a2_dump_path: Path) -> None:
    inventory = scan(build(parse_spec(str(a2_dump_path)), "node"))
    assert [(d.port, d.vendor, d.product, d.class_code, d.number) for d in inventory.usb] == [
        ("1-1", "8087", "800a", "09", 2),
        ("3-3", "0424", "2660", "09", 2),
        ("5-1", "8087", "8002", "09", 2),
    ]


def test_a_device_that_makes_no_sense_is_an_error_on_it(host_of: MakeHost) -> None:
    inventory = scan(host_of(STICK.replace("idVendor=0781", "idVendor=none")))
    assert inventory.usb == ()
    assert {error.device for error in inventory.errors if "sys" not in error.device} == {"3-1.2"}
    assert any("idVendor" in error.message for error in inventory.errors)


def test_odd_text_does_not_hide_a_device(host_of: MakeHost) -> None:
    text = STICK.replace("product=Ultra\\n", "product=\\377\\376\\001Stick\\n")
    (device,) = scan(host_of(text)).usb
    assert device.product_name.endswith("Stick")
    device.product_name.encode()


def test_a_machine_without_usb_is_no_error(host_of: MakeHost) -> None:
    inventory = scan(
        host_of(
            "P: /devices/pci0/0000:00:00.0\nE: SUBSYSTEM=pci\nE: PCI_CLASS=60000\nE: PCI_ID=8086:1"
        )
    )
    assert inventory.usb == ()
    assert inventory.errors == ()


def test_owners_of_device_nodes(tmp_path: Path) -> None:
    node = tmp_path / "dev/bus/usb/003/012"
    node.parent.mkdir(parents=True)
    node.touch()
    stick = UsbDevice(
        port="3-1.2",
        vendor="0781",
        product="5581",
        bus=3,
        number=12,
        class_code="08",
        device_path="/dev/bus/usb/003/012",
    )
    unplugged = msgspec.structs.replace(stick, port="3-1.3", device_path="/dev/bus/usb/003/013")
    owner = (os.getuid(), os.getgid())
    assert read_owners(RealHost(str(tmp_path)), [stick, unplugged]) == {"3-1.2": owner}
