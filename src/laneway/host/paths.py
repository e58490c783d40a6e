"""What a sysfs device path says by itself: the PCI functions and USB devices on the way down."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from laneway.core.pci import PciAddress
from laneway.host.port import Host

_USB_PORT = re.compile(r"[0-9]{1,5}-[0-9]{1,5}(?:\.[0-9]{1,5})*")


def real_path(host: Host, link: str) -> str:
    """Where a sysfs link in a directory without links (class, bus) leads; one read, no walk."""
    return _joined(posixpath.dirname(link), host.readlink(link))


@lru_cache(maxsize=4096)
def _joined(directory: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(directory, target))


def functions_on(path: str) -> list[PciAddress]:
    """PCI functions in a device path, from the root bus down."""
    # Most parts differ by their form alone; only what looks like an address is parsed.
    parts = (part for part in path.split("/") if part[-2:-1] == ".")
    return [address for part in parts if (address := as_address(part))]


def usb_ports_on(path: str) -> list[str]:
    """USB devices in a device path, from the root hub down, root hubs left out."""
    return [part for part in path.split("/") if is_usb_port(part)]


@lru_cache(maxsize=4096)
def as_address(text: str) -> PciAddress | None:
    try:
        return PciAddress.parse(text)
    except ValueError:
        return None


def is_usb_port(name: str) -> bool:
    return _USB_PORT.fullmatch(name) is not None
