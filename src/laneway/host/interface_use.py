"""Whether the node uses a network interface: by address, by route, or as part of another one.

sysfs shows no addresses. Every IPv4 address but a lone one without a subnet brings a route to its
subnet, so routes stand for them; IPv6 addresses have a file. An IPv6 address of link scope, which
every interface gives itself when it is up, is no use.
"""

from __future__ import annotations

from laneway.core.situation import Holder
from laneway.host import procfs
from laneway.host.attributes import clean
from laneway.host.port import Host

_LINK_SCOPE = 0x20


def interface_use(host: Host, name: str, path: str) -> list[Holder]:
    """What an interface, given with its real path in sysfs, is used for."""
    uses = []
    if any(line.split()[:1] == [name] for line in procfs.lines(host, "net/route")[1:]):
        uses.append("has IPv4 routes")
    if _has_ipv6_address(host, name):
        uses.append("has an IPv6 address")
    uses += [f"is part of {upper}" for upper in _upper(host, path)]
    return [Holder("network", f"its interface {clean(name)} {use}") for use in uses]


def _has_ipv6_address(host: Host, name: str) -> bool:
    for line in procfs.lines(host, "net/if_inet6"):
        match line.split():
            # address index prefix scope flags name
            case [_, _, _, scope, _, owner] if owner == name and scope != f"{_LINK_SCOPE:02x}":
                return True
    return False


def _upper(host: Host, path: str) -> list[str]:
    """Bridges, bonds, VLANs and whatever else is built on the interface."""
    try:
        names = sorted(host.names(path))
    except OSError:
        return []  # gone since
    return [clean(name.removeprefix("upper_")) for name in names if name.startswith("upper_")]
