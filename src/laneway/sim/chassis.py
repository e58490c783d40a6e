"""The server around the cards: what every built-in model has.

Two sockets; a boot disk on NVMe with its partitions mounted; a management NIC with the default
route; a service processor's display, keyboard and mouse, unless it is a workstation; a USB
controller with a hub; chipset functions that share an IOMMU group. With all this the questions that
real servers raise (may this device be given away?) have real answers on a simulated one.
"""

from __future__ import annotations

import posixpath

import msgspec

from laneway.sim import parts
from laneway.sim.boot import installed
from laneway.sim.build import Machine

ROOT = "/devices/pci0000:00"

_USB_MAJOR = 189
_NVME_MAJOR, _BLOCK_MAJOR = 240, 259


def chassis(
    vendor: str, product: str, nvidia_driver: str = "", *, service_processor: bool = True
) -> Machine:
    """A running server without cards."""
    machine = Machine()
    machine.add(
        "/devices/virtual/dmi/id",
        "dmi",
        attributes={"sys_vendor": vendor, "product_name": product, "board_vendor": vendor},
    )
    for node, cpus in enumerate(("0-15", "16-31")):
        machine.add(f"/devices/system/node/node{node}", "node", attributes={"cpulist": cpus})
    machine.pci(ROOT, "0000:00:00.0", parts.HOST_BRIDGE)
    boot_port = machine.pci(ROOT, "0000:00:02.0", parts.ROOT_PORT)
    disk(machine, machine.pci(boot_port, "0000:01:00.0", parts.NVME), 0, boot=True)
    _usb(machine)
    if service_processor:
        _service_processor(machine)
    _terminals(machine)
    lan_port = machine.pci(ROOT, "0000:00:1d.0", parts.CHIPSET_PORT)
    nic(machine, lan_port, "0000:04:00.0", parts.I350, interface=("eno1", 2))
    nic(machine, lan_port, "0000:04:00.1", parts.I350, interface=("eno2", 3))
    group = machine.new_group()
    machine.pci(ROOT, "0000:00:1f.0", parts.ISA_BRIDGE, group=group)
    machine.pci(ROOT, "0000:00:1f.4", parts.SMBUS, group=group)
    _files(machine, nvidia_driver)
    return machine


def nic(
    machine: Machine,
    parent: str,
    address: str,
    kind: parts.Nic,
    *,
    interface: tuple[str, int],
    numa: int = 0,
) -> str:
    """A network port with its interface, given by name and index."""
    name, index = interface
    # The VFs of one port come after all that the port before it can have.
    behind = int(address[-1]) * (kind.sriov.total - 1)
    sriov = msgspec.structs.replace(kind.sriov, offset=kind.sriov.offset + behind)
    path = machine.pci(parent, address, kind.part, numa=numa, sriov=sriov)
    last = f"{int(address[5:7], 16):02x}:{index:02x}"
    machine.add(
        f"{path}/net/{name}",
        "net",
        properties={"INTERFACE": name, "IFINDEX": str(index)},
        attributes={
            "address": f"3c:ec:ef:00:{last}",
            "ifindex": str(index),
            "mtu": "1500",
            "operstate": "up",
            "carrier": "1",
            "speed": str(kind.mbit),
            "type": "1",
            "dev_port": address[-1],
        },
        links={"device": f"../../../{address}"},
    )
    return path


def disk(machine: Machine, controller: str, number: int, *, boot: bool = False) -> None:
    """An NVMe disk; the one to boot from has partitions."""
    name = f"nvme{number}"
    nvme = machine.add(
        f"{controller}/nvme/{name}",
        "nvme",
        attributes={
            "model": "Samsung SSD 980 PRO 2TB",
            "serial": f"S6S2NS0T{100000 + number}",
            "firmware_rev": "5B2QGXA7",
            "transport": "pcie",
            "state": "live",
        },
        links={"device": f"../../../{posixpath.basename(controller)}"},
        node=name,
        number=(_NVME_MAJOR, number),
    )
    minor = number * 16
    block = machine.add(
        f"{nvme}/{name}n1",
        "block",
        properties={"DEVTYPE": "disk", "DISKSEQ": str(number + 1)},
        attributes={"size": "3907029168", "removable": "0", "ro": "0"},
        links={"device": f"../../{name}"},
        node=f"{name}n1",
        number=(_BLOCK_MAJOR, minor),
    )
    for partition, sectors in enumerate((1048576, 3890249728, 15728640), 1) if boot else ():
        machine.add(
            f"{block}/{name}n1p{partition}",
            "block",
            properties={"DEVTYPE": "partition", "PARTN": str(partition)},
            attributes={"partition": str(partition), "size": str(sectors), "ro": "0"},
            node=f"{name}n1p{partition}",
            number=(_BLOCK_MAJOR, minor + partition),
        )


def sound_card(machine: Machine, controller: str) -> None:
    """The first sound card, with what a program opens to set its volume."""
    card = machine.add(f"{controller}/sound/card0", "sound", attributes={"id": "NVidia"})
    machine.add(
        f"{card}/controlC0",
        "sound",
        links={"device": "../../card0"},
        node="snd/controlC0",
        number=(116, 2),
    )


class Usb(msgspec.Struct, frozen=True, kw_only=True):
    """A USB device with one interface."""

    ids: tuple[str, str]
    """Vendor and product, hex."""
    names: tuple[str, str]
    """Manufacturer and product."""
    device_class: str = "00"
    interface: tuple[str, str] = ("030101", "usbhid")
    """Class in six hex digits, driver."""
    serial: str = ""
    speed: str = "480"


def usb_device(machine: Machine, parent: str, port: str, number: int, kind: Usb) -> str:
    """A USB device on a port (`usb1` for a root hub), with its number on the bus."""
    bus = int(port.removeprefix("usb").partition("-")[0])
    product = f"{int(kind.ids[0], 16):x}/{int(kind.ids[1], 16):x}/100"
    attributes = {
        "idVendor": kind.ids[0],
        "idProduct": kind.ids[1],
        "bcdDevice": "0100",
        "bDeviceClass": kind.device_class,
        "bConfigurationValue": "1",
        "bNumInterfaces": " 1",
        "busnum": str(bus),
        "devnum": str(number),
        "devpath": port.partition("-")[2] or "0",
        "manufacturer": kind.names[0],
        "product": kind.names[1],
        "speed": kind.speed,
        "version": " 2.00",
    }
    if kind.serial:
        attributes["serial"] = kind.serial
    path = machine.add(
        f"{parent}/{port}",
        "usb",
        properties={
            "DEVTYPE": "usb_device",
            "DRIVER": "usb",
            "PRODUCT": product,
            "TYPE": f"{int(kind.device_class, 16)}/0/0",
            "BUSNUM": f"{bus:03d}",
            "DEVNUM": f"{number:03d}",
        },
        attributes=attributes,
        node=f"bus/usb/{bus:03d}/{number:03d}",
        number=(_USB_MAJOR, (bus - 1) * 128 + number - 1),
    )
    label = f"{bus}-0" if port.startswith("usb") else port
    interface_class, driver = kind.interface
    machine.add(
        f"{path}/{label}:1.0",
        "usb",
        properties={"DEVTYPE": "usb_interface", "DRIVER": driver, "PRODUCT": product},
        attributes={
            "bInterfaceNumber": "00",
            "bInterfaceClass": interface_class[:2],
            "bInterfaceSubClass": interface_class[2:4],
            "bInterfaceProtocol": interface_class[4:],
        },
    )
    return path


_CONSOLE = Usb(ids=("0557", "2419"), names=("ATEN", "Virtual Keyboard and Mouse"), speed="12")
_STICK = Usb(
    ids=("0781", "5583"),
    names=("SanDisk", "Ultra Fit"),
    interface=("080650", "usb-storage"),
    serial="4C530001230807114385",
)


def _hub(ids: tuple[str, str], names: tuple[str, str], serial: str = "", speed: str = "480") -> Usb:
    return Usb(
        ids=ids,
        names=names,
        device_class="09",
        interface=("090000", "hub"),
        serial=serial,
        speed=speed,
    )


def _usb(machine: Machine) -> None:
    group = machine.new_group()
    address = "0000:00:14.0"
    controller = machine.pci(ROOT, address, parts.XHCI, group=group)
    machine.pci(ROOT, "0000:00:14.2", parts.THERMAL, group=group)
    names = ("Linux 6.8.0 xhci-hcd", "xHCI Host Controller")
    usb1 = usb_device(machine, controller, "usb1", 1, _hub(("1d6b", "0002"), names, address))
    usb_device(machine, controller, "usb2", 1, _hub(("1d6b", "0003"), names, address, "5000"))
    names = ("American Megatrends", "USB Virtual Hub")
    hub = usb_device(machine, usb1, "1-14", 2, _hub(("1d6b", "0107"), names))
    usb_device(machine, hub, "1-14.1", 3, _CONSOLE)
    usb_device(machine, usb1, "1-3", 4, _STICK)


def _service_processor(machine: Machine) -> None:
    """Display behind a bridge from PCI Express to PCI: one IOMMU group, as on any board."""
    port = machine.pci(ROOT, "0000:00:1c.0", parts.CHIPSET_PORT)
    group = machine.new_group()
    bridge = machine.pci(port, "0000:02:00.0", parts.BMC_BRIDGE, group=group)
    display = machine.pci(bridge, "0000:03:00.0", parts.BMC_VGA, group=group)
    machine.add(
        f"{display}/graphics/fb0",
        "graphics",
        attributes={"name": "astdrmfb"},
        links={"device": "../../../0000:03:00.0"},
        node="fb0",
        number=(29, 0),
    )


def framebuffer(machine: Machine) -> None:
    """What firmware drew on, shown by a platform driver, with the virtual consoles on it."""
    path = machine.add(
        "/devices/platform/efi-framebuffer.0",
        "platform",
        properties={"DRIVER": "efi-framebuffer", "MODALIAS": "platform:efi-framebuffer"},
        attributes={"modalias": "platform:efi-framebuffer", "driver_override": "(null)"},
    )
    machine.add(
        f"{path}/graphics/fb0",
        "graphics",
        attributes={"name": "EFI VGA"},
        links={"device": "../../../efi-framebuffer.0"},
        node="fb0",
        number=(29, 0),
    )
    for number, (name, bound) in enumerate(
        (("(S) dummy device", 0), ("(M) frame buffer device", 1))
    ):
        machine.add(
            f"/devices/virtual/vtconsole/vtcon{number}",
            "vtconsole",
            attributes={"name": name, "bind": str(bound)},
        )


def _terminals(machine: Machine) -> None:
    consoles: tuple[tuple[str, dict[str, str], tuple[int, int]], ...] = (
        ("console", {"active": "tty0"}, (5, 1)),
        ("tty0", {"active": "tty1"}, (4, 0)),
    )
    for name, attributes, number in consoles:
        path = f"/devices/virtual/tty/{name}"
        machine.add(path, "tty", attributes=attributes, node=name, number=number)


def _files(machine: Machine, nvidia_driver: str) -> None:
    lines = {
        "/proc/1/mountinfo": (
            "22 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw",
            "23 28 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw",
            "28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw",
            "31 28 259:1 / /boot/efi rw,relatime shared:29 - vfat /dev/nvme0n1p1 rw",
        ),
        "/proc/1/net/route": (
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
            "eno1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0",
            "eno1\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0",
        ),
        "/proc/1/net/ipv6_route": (),
        "/proc/consoles": ("tty0                 -WU (EC  p  )    4:1",),
        "/proc/swaps": (
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
            "/dev/nvme0n1p3                          partition\t7864316\t\t0\t\t-2",
        ),
    }
    if nvidia_driver:
        lines["/sys/module/nvidia/version"] = (nvidia_driver,)
        lines["/proc/driver/nvidia/version"] = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {nvidia_driver}  Tue Aug 20 18:12:26",
        )
    machine.files = {
        path: "".join(f"{line}\n" for line in content).encode() for path, content in lines.items()
    } | installed(iommu=True)
