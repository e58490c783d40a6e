"""Which PCI functions answer no more, by their configuration space.

A function that fell off the bus keeps its sysfs directory with everything the kernel remembers of
it; only its configuration space, which the kernel reads again, has become all ones. The ids alone
prove nothing: a VF shows FFFF there in perfect health. Its revision and class never do.

No more than the header is read: the kernel asks the device for every four bytes, and some devices
answer for the rest late or badly.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.pci import PciAddress
from laneway.host.pci import DEVICES
from laneway.host.port import Host

_HEADER = 64
"""Bytes of the standard header, which every function has."""


def read_silent(host: Host, addresses: Iterable[PciAddress]) -> frozenset[PciAddress]:
    """Those among the functions that answer no more; one that cannot be read is not judged."""
    return frozenset(address for address in addresses if _silent(host, address))


def _silent(host: Host, address: PciAddress) -> bool:
    try:
        header = host.read_start(f"{DEVICES}/{address}/config", _HEADER)
    except OSError:
        return False
    return header == b"\xff" * _HEADER
