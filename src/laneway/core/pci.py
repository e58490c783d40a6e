"""PCI addresses and the facts that one PCI function shows about itself.

These are the words in which the host layer reports and every decision is made, so they hold what
hardware says and no desired state.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec

NVIDIA = "10de"
"""Vendor id."""

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_WRITTEN = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])")


def pci_address(text: str) -> PciAddress | None:
    """An address as people write it: as lspci or nvidia-smi print it; None for other text."""
    match = _WRITTEN.fullmatch(text.strip().lower())
    return PciAddress.parse(f"{int(match[1] or '0', 16):04x}:{match[2]}") if match else None


class PciAddress(NamedTuple):
    """`domain:bus:device.function`; sorts as the hardware enumerates, not as text."""

    domain: int
    bus: int
    device: int
    function: int

    def __str__(self) -> str:
        return _written(self)

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Read the form that sysfs prints: lower-case hex, at least four digits of domain.

        Raises ValueError for anything else; no input reaches a path without passing here.
        """
        match = _ADDRESS.fullmatch(text)
        address = match and cls(*(int(part, 16) for part in match.groups()))
        # A longer domain than needed would give one device two names.
        if address is None or str(address) != text:
            raise ValueError(f"not a PCI address (dddd:bb:dd.f, lower-case hex): {text!r}")
        return address

    def shifted(self, before: PciAddress, after: PciAddress) -> PciAddress:
        """Where this is once the card that it belongs to is at `after` and no more at `before`.

        A card has its functions at the same distances in any slot. Raises ValueError where the
        buses end.
        """
        distance = self._routing_id - before._routing_id
        number = after._routing_id + distance
        if not 0 <= number < 1 << 16:
            raise ValueError(f"{self}: no bus has room for it when {before} is at {after}")
        return PciAddress(after.domain, number >> 8, number >> 3 & 31, number & 7)

    @property
    def _routing_id(self) -> int:
        return self.bus << 8 | self.device << 3 | self.function


@lru_cache(maxsize=4096)
def _written(address: PciAddress) -> str:
    """Remembered, because whatever is done about a server writes the same addresses each time."""
    domain, bus, device, function = address
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


class Bar(msgspec.Struct, frozen=True):
    """One base address register that has a size (line `index` of sysfs `resource`)."""

    index: int
    size: int
    io: bool = False
    prefetchable: bool = False
    wide: bool = False
    """64-bit: needs the machine's 64-bit MMIO window."""


class Link(msgspec.Struct, frozen=True):
    """PCI Express link, in the words of sysfs (`16.0 GT/s PCIe`); empty when not reported."""

    speed: str = ""
    width: int = 0
    max_speed: str = ""
    max_width: int = 0


class PciFunction(msgspec.Struct, frozen=True, kw_only=True):
    """One PCI function as the kernel shows it. Ids are lower-case hex without prefix."""

    address: PciAddress
    vendor: str
    device: str
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    class_code: str
    """Class, subclass and programming interface: six digits, `030200`."""
    driver: str = ""
    iommu_group: int | None = None
    numa_node: int | None = None
    """None when unknown; the kernel's -1 is never passed on as a node."""
    link: Link = Link()
    bars: tuple[Bar, ...] = ()
    reset_methods: tuple[str, ...] = ()
    boot_vga: bool = False
    physfn: PciAddress | None = None
    """The PF, when this function is a VF."""
    vfs: tuple[PciAddress, ...] = ()
    """The VFs that exist now, by `virtfnN` in numeric order."""
    total_vfs: int | None = None
    """None when the function has no SR-IOV capability."""
    num_vfs: int = 0
    sriov_gpu: bool = False
    """NVIDIA's driver says this PF can make vGPU-capable VFs (`sriov_vf_device` not 0)."""
    upstream: PciAddress | None = None
    """The bridge directly above, from the sysfs path; None on a root bus."""

    @property
    def is_bridge(self) -> bool:
        return self.class_code.startswith("0604")

    @property
    def is_gpu(self) -> bool:
        """Display controllers that do 3D or VGA: classes 0300 and 0302."""
        return self.class_code[:4] in ("0300", "0302")
