"""PCI addresses as people write them: short, in capitals, or as `nvidia-smi` prints them."""

from __future__ import annotations

import re

from laneway.core.pci import PciAddress

_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])")


def pci_address(text: str) -> PciAddress | None:
    """None for text that is no PCI address."""
    match = _ADDRESS.fullmatch(text.strip().lower())
    return PciAddress.parse(f"{int(match[1] or '0', 16):04x}:{match[2]}") if match else None
