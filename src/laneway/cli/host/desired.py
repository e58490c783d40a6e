"""Devices and vGPUs as they are written on the command line, all of it checked.

Each function returns the value, or raises click.BadParameter with an example.
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
            f"{text[:60]!r} is no PCI address, such as 0000:08:00.0. 'laneway devices' "
            "lists the devices"
        )
    return found


def usb_port(text: str) -> str:
    """The port of a USB device."""
    if not is_usb_port(text):
        raise click.BadParameter(
            f"{text[:60]!r} is no USB port, such as 1-4 or 3-1.2. 'laneway devices' "
            "lists the devices"
        )
    return text


def device(text: str) -> PciAddress | str:
    """A PCI address, or the port of a USB device."""
    return text if is_usb_port(text) else address(text)


def vgpus(text: str) -> dict[str, int]:
    """The vGPUs that `A2-4Q=2,A2-8Q` names, by profile as it is written; empty for `none`."""
    return profile_names.desired(text.split(","))


def in_full(
    wanted: Mapping[str, int], inventory: Inventory, address: PciAddress
) -> tuple[tuple[str, int], ...]:
    """The vGPUs in the driver's names; as they are written for what is no GPU with vGPUs."""
    gpu = inventory.function(address)
    if gpu is None or not gpu.sriov_gpu:
        return tuple(wanted.items())
    driver, catalogue = named(gpu, inventory.vgpus_of(address))
    return tuple(profile_names.in_full(wanted, driver, catalogue).items())
