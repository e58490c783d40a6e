"""Network interfaces of a simulated host that stand on others, and addresses, as ip(8) makes them.

What stands on an interface is linked with it both ways (`upper_`, `lower_`), and of a bond or
bridge also by `master`. An interface that goes, with its card or with its driver, takes its
addresses and routes along and leaves what stood on it; it comes back bare.
"""

from __future__ import annotations

import errno
import ipaddress
import posixpath
from typing import Literal

from laneway.core.inventory import InterfaceAddress
from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.tree import os_error

_VIRTUAL = "/devices/virtual/net"
_ROUTES = "/proc/1/net/route"
_ROUTES_HEAD = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
)
_INET6 = "/proc/1/net/if_inet6"
_GLOBAL, _LINK = 0x00, 0x20
"""Scopes of IPv6 addresses, as /proc shows them."""


class Network:
    """Not locked: its host serialises access."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._addresses: dict[str, list[str]] = {}
        """By path, in the form of ip(8): `10.9.0.5/24`."""
        devices.leaving = self._leave

    def add(self, name: str, kind: Literal["bond", "bridge", "vlan"]) -> None:
        """`ip link add NAME type KIND`."""
        self._devices.add(
            Block(
                path=f"{_VIRTUAL}/{name}",
                properties={"SUBSYSTEM": "net", "DEVTYPE": kind, "INTERFACE": name},
                attributes={"operstate": b"up\n"},
            )
        )

    def delete(self, name: str) -> None:
        """`ip link delete NAME`."""
        self._devices.remove(self._path(name))

    def stack(self, lower: str, upper: str) -> None:
        """`ip link set LOWER master UPPER`, or what a VLAN does by itself."""
        below, above = self._path(lower), self._path(upper)
        self._devices.set_link(below, f"upper_{upper}", posixpath.relpath(above, below))
        self._devices.set_link(above, f"lower_{lower}", posixpath.relpath(below, above))
        if self._devices[above].properties.get("DEVTYPE") != "vlan":
            self._devices.set_link(below, "master", posixpath.relpath(above, below))

    def unstack(self, lower: str) -> None:
        """`ip link set LOWER nomaster`, and the VLANs on it are deleted."""
        self._detach(self._path(lower))

    def give(self, name: str, address: str) -> None:
        """`ip address add ADDRESS dev NAME`."""
        found = ipaddress.ip_interface(address)
        self._addresses.setdefault(self._path(name), []).append(address)
        if isinstance(found, ipaddress.IPv4Interface):
            if found.network.prefixlen < found.max_prefixlen:
                self._append(_ROUTES, _ROUTES_HEAD, _route(name, found))
        else:
            scope = _LINK if found.is_link_local else _GLOBAL
            self._append(
                _INET6,
                "",
                f"{int(found.ip):032x} 02 {found.network.prefixlen:02x} {scope:02x} 80 {name:>8}\n",
            )

    def flush(self, name: str) -> None:
        """`ip address flush dev NAME`."""
        self._flush(self._path(name))

    def addresses(self) -> list[InterfaceAddress]:
        """What the kernel answers to RTM_GETADDR."""
        return [
            InterfaceAddress(
                posixpath.basename(path),
                address,
                link_local=ipaddress.ip_interface(address).version == 6
                and ipaddress.ip_interface(address).is_link_local,
            )
            for path, addresses in self._addresses.items()
            for address in addresses
        ]

    def _path(self, name: str) -> str:
        for path in self._devices:
            if path.endswith(f"/net/{name}"):
                return path
        raise os_error(errno.ENODEV, name)

    def _leave(self, path: str) -> None:
        """An interface is about to go."""
        if self._devices[path].properties.get("SUBSYSTEM") == "net":
            self._flush(path)
            self._detach(path)
            name = posixpath.basename(path)
            for other in [
                one for one in self._devices if f"upper_{name}" in self._devices[one].links
            ]:
                self._separate(other, path)

    def _detach(self, lower: str) -> None:
        above = [one for one in self._devices[lower].links if one.startswith("upper_")]
        for link in above:
            upper = self._path(link.removeprefix("upper_"))
            self._separate(lower, upper)
            if self._devices[upper].properties.get("DEVTYPE") == "vlan":
                self._devices.remove(upper)

    def _separate(self, lower: str, upper: str) -> None:
        self._devices.set_link(lower, f"upper_{posixpath.basename(upper)}", "")
        self._devices.set_link(lower, "master", "")
        self._devices.set_link(upper, f"lower_{posixpath.basename(lower)}", "")

    def _flush(self, path: str) -> None:
        name = posixpath.basename(path)
        if self._addresses.pop(path, None):
            for file, of in ((_ROUTES, 0), (_INET6, -1)):
                kept = [line for line in self._lines(file) if line.split()[of] != name]
                self._devices.tree.put(file, "".join(kept).encode())

    def _lines(self, file: str) -> list[str]:
        if self._devices.tree.get(file) is None:
            return []
        return self._devices.tree.read(file).decode().splitlines(keepends=True)

    def _append(self, file: str, head: str, line: str) -> None:
        lines = self._lines(file) or [head]
        if line.split()[:2] not in [one.split()[:2] for one in lines]:
            self._devices.tree.put(file, "".join((*lines, line)).encode())


def _route(name: str, address: ipaddress.IPv4Interface) -> str:
    """The route to the address' own subnet, numbers in the byte order of the host."""
    destination, mask = (
        int.from_bytes(part.packed, "little")
        for part in (address.network.network_address, address.network.netmask)
    )
    return f"{name}\t{destination:08X}\t00000000\t0001\t0\t0\t0\t{mask:08X}\t0\t0\t0\n"
