"""What people write on the command line about devices, and nothing of it unchecked.

Each function is a click type: it returns the value, or raises click.BadParameter with an example.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from laneway.cli import profile_names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, pci_address
from laneway.core.vgpu.spelling import named
from laneway.host.paths import is_usb_port


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


def vgpus(text: str) -> dict[str, int]:
    """How many vGPUs of which profiles, as it is written: `A2-4Q=2,A2-8Q`; empty for `none`."""
    return profile_names.desired_states(text.split(","))


def in_full(
    wanted: Mapping[str, int], inventory: Inventory, address: PciAddress
) -> tuple[tuple[str, int], ...]:
    """The vGPUs in the driver's names; as they are written for what is no GPU with vGPUs."""
    gpu = inventory.function(address)
    if gpu is None or not gpu.sriov_gpu:
        return tuple(wanted.items())
    driver, catalogue = named(gpu, inventory.vgpus_of(address))
    return tuple(profile_names.in_full(wanted, driver, catalogue).items())
