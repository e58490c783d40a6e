"""Whether the node uses a network interface: by address, by route, or as part of another one.

An address of IPv4 or IPv6 is use, but for an IPv6 address of link scope, which the kernel gives to
every interface that is up. Where addresses cannot be read, as of a recorded host, the routes
to their subnets stand for them. Part of another interface (bond, bridge, team, VLAN, whatever is
built on it, at any depth) is use whether that is up or not: a bond of the node's configuration
takes its members up again at any time.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from functools import cached_property

from laneway.host import procfs
from laneway.host.attributes import clean
from laneway.host.port import Host

_CLASS = "/sys/class/net"
_LINK_SCOPE = "20"
_DEEPEST = 8
"""Interfaces on top of one another; the kernel allows as many."""


class InterfaceUse:
    """One look at the node's network; addresses and routes are read once, when first needed."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, name: str, path: str) -> list[str]:
        """What an interface at its real path in sysfs is used for: `ens3 is part of bond0`."""
        uses = []
        if addresses := self._addresses.get(name):
            uses.append(f"has the address {' and '.join(addresses)}")
        elif name in self._routed:
            uses.append("has IPv4 routes")
        uses += [f"is part of {self._chain(upper)}" for upper in self._upper(path)]
        return [f"{clean(name)} {use}" for use in uses]

    @cached_property
    def _addresses(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        try:
            for one in self._host.addresses():
                if not one.link_local:
                    found[one.interface].append(one.address)
        except OSError:
            for line in procfs.lines(self._host, "net/if_inet6"):
                match line.split():
                    # address index prefix scope flags name
                    case [raw, _, _, scope, _, name] if scope != _LINK_SCOPE:
                        found[name].append(_ipv6(raw))
        return found

    @cached_property
    def _routed(self) -> set[str]:
        lines = (line.split() for line in procfs.lines(self._host, "net/route")[1:])
        return {fields[0] for fields in lines if fields}

    def _chain(self, name: str) -> str:
        """An interface and what it is part of itself: `bond vlan1-bo, part of bridge vlan1-br`."""
        texts = []
        for _ in range(_DEEPEST):
            path = f"{_CLASS}/{name}"
            texts.append(f"{kind_of(self._host, path)} {clean(name)}".strip())
            above = self._upper(path)
            if not above:
                break
            name = above[0]
        return ", part of ".join(texts)

    def _upper(self, path: str) -> list[str]:
        """Bridges, bonds, VLANs and whatever else is built on the interface."""
        try:
            names = sorted(self._host.names(path))
        except OSError:
            return []  # gone since
        return [name.removeprefix("upper_") for name in names if name.startswith("upper_")]


def _ipv6(raw: str) -> str:
    """An address as /proc shows it, in the usual form."""
    try:
        return str(ipaddress.IPv6Address(bytes.fromhex(raw)))
    except ValueError:
        return clean(raw)


def kind_of(host: Host, path: str) -> str:
    """What an interface is, `bond`; empty where the kernel has no word for it."""
    try:
        lines = clean(host.read(f"{path}/uevent")).splitlines()
    except OSError:
        return ""
    kinds = (line.removeprefix("DEVTYPE=") for line in lines if line.startswith("DEVTYPE="))
    return next(kinds, "")
