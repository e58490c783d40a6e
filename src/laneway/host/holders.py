"""Who uses a device now: processes that have it open, and the kernel itself."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.inventory import UsbDevice
from laneway.core.pci import PciAddress
from laneway.core.situation import Holder
from laneway.host.port import Host


def read_holders(
    host: Host, addresses: Iterable[PciAddress]
) -> dict[PciAddress, tuple[Holder, ...]]:
    """The users of each function asked for, its vGPU included; functions without one left out.

    One pass over all processes whatever the number of functions.
    """
    raise NotImplementedError


def usb_holders(host: Host, devices: Iterable[UsbDevice]) -> dict[str, tuple[Holder, ...]]:
    """The users of USB devices and of what they carry, by port."""
    raise NotImplementedError


def mdev_holders(host: Host, uuid: str) -> tuple[Holder, ...]:
    """The users of one mediated device."""
    raise NotImplementedError


def blindness(host: Host) -> str:
    """Why not all processes can be seen from here, as the rest of a sentence; empty when they can."""
    raise NotImplementedError
