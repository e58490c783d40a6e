"""What people write on the command line about devices, and nothing of it unchecked.

Each function is a click type: it returns the value, or raises click.BadParameter with an example.
"""

from __future__ import annotations

import re
from collections import Counter

import click

from laneway.cli.addresses import pci_address
from laneway.core.pci import PciAddress
from laneway.host.paths import is_usb_port

_PART = re.compile(r"(?:([0-9]{1,4})\s*[xX]\s*)?([!-~](?:[ -~]*[!-~])?)")
_QUOTES = str.maketrans("", "", "\"'")


def address(text: str) -> PciAddress:
    """A PCI address, with or without its domain."""
    found = pci_address(text)
    if found is None:
        raise click.BadParameter(
            f"{text[:60]!r} is no PCI address; it looks like 0000:08:00.0, as laneway devices shows"
        )
    return found


def usb_port(text: str) -> str:
    """The port of a USB device."""
    if not is_usb_port(text):
        raise click.BadParameter(
            f"{text[:60]!r} is no USB port; it looks like 1-4 or 3-1.2, as laneway devices shows"
        )
    return text


def device(text: str) -> PciAddress | str:
    """A PCI address, or the port of a USB device."""
    return text if is_usb_port(text) else address(text)


def vgpus(text: str) -> tuple[tuple[str, int], ...]:
    """How many vGPUs of which profiles: `2x"NVIDIA A2-4Q",1x"NVIDIA A2-8Q"`."""
    counts: Counter[str] = Counter()
    for part in text.translate(_QUOTES).split(","):
        match = _PART.fullmatch(part.strip())
        count = int(match[1] or 1) if match else 0
        if match is None or not count:
            raise click.BadParameter(
                f"{part.strip()[:60]!r} is no count and profile; write "
                '2x"NVIDIA A2-4Q",1x"NVIDIA A2-8Q"'
            )
        counts[match[2]] += count
    return tuple(counts.items())
