"""Network interfaces on PCI functions, and those that the node's network stands on.

The node is reached through its default routes and Harvester's management bridge and bond; what
those are stacked on (bridge, bond, VLAN) follows from the `lower_` links. Every other interface of
a device that has an address or is part of another one serves a network as well: storage, or a
cluster network of virtual machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from laneway.core.inventory import DeviceError, NetworkInterface
from laneway.core.passthrough.usability import SERVES_NETWORK
from laneway.core.pci import PciFunction
from laneway.host import procfs
from laneway.host.attributes import clean, describe, listing
from laneway.host.critical import Need
from laneway.host.interface_use import InterfaceUse, kind_of
from laneway.host.paths import functions_on, real_path, usb_ports_on
from laneway.host.pci import DEVICES
from laneway.host.port import Host

_CLASS = "/sys/class/net"
_NETWORK_CLASS = "02"
_MANAGEMENT = ("mgmt-br", "mgmt-bo")
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2})+")
_UP, _REJECT = 0x1, 0x200
"""Flags of a route."""


class Interfaces(msgspec.Struct, frozen=True):
    """Every interface's device path by name, and those on PCI functions."""

    paths: dict[str, str]
    on_pci: list[NetworkInterface]


def read_interfaces(host: Host, errors: list[DeviceError]) -> Interfaces:
    """All interfaces; those on PCI functions are sorted by address and name."""
    paths: dict[str, str] = {}
    on_pci = []
    for name in listing(host, _CLASS, errors):
        try:
            path = real_path(host, f"{_CLASS}/{name}")
        except OSError:
            continue  # gone, or no interface: `bonding_masters` is a file among the links
        paths[name] = path
        functions = functions_on(path)
        if functions and not usb_ports_on(path):
            mac = _mac(host, name, path, errors)
            on_pci.append(NetworkInterface(name=clean(name), address=functions[-1], mac=mac))
    return Interfaces(paths, sorted(on_pci, key=lambda nic: (nic.address, nic.name)))


def _mac(host: Host, name: str, path: str, errors: list[DeviceError]) -> str:
    try:
        mac = clean(host.read(f"{path}/address"))
    except OSError as error:
        if host.exists(path):
            errors.append(DeviceError(clean(name), f"address: cannot be read: {describe(error)}"))
        return ""
    return mac if _MAC.fullmatch(mac) else ""


def needs(host: Host, interfaces: Interfaces) -> list[Need]:
    """The interfaces that the node's network stands on, down to the hardware; each once."""
    routes = sorted(_default_route_interfaces(host))
    roots = [(name, "the default route") for name in routes]
    roots += [(name, "the management network") for name in _MANAGEMENT]
    seen: set[str] = set()
    found: list[Need] = []
    for root, what in roots:
        if root in interfaces.paths and root not in seen:
            found += _stack(host, interfaces, root, f"carries {what} ({clean(root)})", seen)
    use = InterfaceUse(host)
    for name, path in interfaces.paths.items():
        if name not in seen and functions_on(path):
            found += [Need(path, f"{SERVES_NETWORK}: {text}") for text in use.of(name, path)]
    return found


def hidden(host: Host, functions: Iterable[PciFunction], interfaces: Interfaces) -> list[Need]:
    """Network functions whose interface was moved to another network namespace.

    The directory of interfaces is made with the first one and shows those of one namespace.
    """
    shown = {one.address for one in interfaces.on_pci}
    found = []
    for function in functions:
        if function.class_code.startswith(_NETWORK_CLASS) and function.address not in shown:
            path = f"{DEVICES}/{function.address}"
            try:
                moved = not host.names(f"{path}/net")
            except OSError:
                continue  # none, as under vfio-pci
            if moved:
                found.append(Need(path, f"{SERVES_NETWORK}: its interface is in another namespace"))
    return found


def _stack(
    host: Host, interfaces: Interfaces, root: str, reason: str, seen: set[str]
) -> list[Need]:
    """The interface and what it is stacked on, each with its place as the reason."""
    found = [Need(interfaces.paths[root], reason)]
    seen.add(root)
    todo = [root]
    while todo:
        upper = todo.pop()
        for lower in _lower(host, interfaces, upper):
            if lower not in seen:
                seen.add(lower)
                todo.append(lower)
                kind = kind_of(host, interfaces.paths[upper]) or "interface"
                member = f"{clean(lower)} is part of {kind} {clean(upper)}"
                found.append(Need(interfaces.paths[lower], f"{reason}: {member}"))
    return found


def _lower(host: Host, interfaces: Interfaces, upper: str) -> list[str]:
    try:
        names = host.names(interfaces.paths[upper])
    except OSError:
        return []  # gone since the listing
    lower = (name.removeprefix("lower_") for name in sorted(names) if name.startswith("lower_"))
    return [name for name in lower if name in interfaces.paths]


def _default_route_interfaces(host: Host) -> set[str]:
    found = set()
    for line in procfs.lines(host, "net/route")[1:]:
        match line.split():
            # Iface Destination Gateway Flags RefCnt Use Metric Mask ...
            case [name, "00000000", _, flags, _, _, _, "00000000", *_] if _is_usable(flags):
                found.add(name)
    for line in procfs.lines(host, "net/ipv6_route"):
        match line.split():
            # destination length source length gateway metric references use flags interface
            case [destination, "00", _, _, _, _, _, _, flags, name] if not destination.strip(
                "0"
            ) and _is_usable(flags):
                found.add(name)
    return found


def _is_usable(flags: str) -> bool:
    try:
        return int(flags, 16) & (_UP | _REJECT) == _UP
    except ValueError:
        return False
