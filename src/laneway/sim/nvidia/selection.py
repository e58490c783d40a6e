"""How NVIDIA's programs name GPUs."""

from __future__ import annotations

import posixpath
import re

from laneway.core.pci import PciAddress
from laneway.sim.nvidia.driver import NvidiaDriver

_ADDRESS = re.compile(
    r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.IGNORECASE
)


class NoSuchGpuError(Exception):
    """No GPU that the driver has is called so."""


def select(driver: NvidiaDriver, text: str | None) -> list[str]:
    """The GPUs (paths of PFs) that `-i` names: all without it. Raises NoSuchGpuError."""
    gpus = driver.gpus()
    if text is None:
        chosen = gpus
    elif text.isdecimal():
        chosen = gpus[int(text) : int(text) + 1] if len(text) <= len("999") else []
    else:
        wanted = plain_address(text)
        chosen = [path for path in gpus if posixpath.basename(path) == wanted]
    if not chosen:
        raise NoSuchGpuError
    return chosen


def plain_address(text: str) -> str:
    """A PCI address as sysfs writes it; empty for what is none."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return ""
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def bus_id(path: str) -> str:
    """A PCI address as NVIDIA's programs write it."""
    address = PciAddress.parse(posixpath.basename(path))
    return f"{address.domain:08X}:{address.bus:02X}:{address.device:02X}.{address.function}"
