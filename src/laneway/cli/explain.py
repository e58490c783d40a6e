"""`laneway explain`: everything known about one device, and whether a virtual machine can have it.

An address or a USB port is answered from the host itself and needs no cluster; anything else names
an object of the API. Which of the two is meant is plain from the text: no object has a `:` in its
name, and none of ours looks like a port.
"""

from __future__ import annotations

import click

from laneway.cli import page
from laneway.cli.errors import Failure
from laneway.cli.explain_device import explain_pci, explain_usb
from laneway.cli.source import look, simulate_option
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, pci_address
from laneway.host.paths import is_usb_port


@click.command(
    epilog="""\b
Examples:
    laneway explain 08:00.0
    laneway explain 08:00.4 --simulate a2
    laneway explain node1/08:00.0
    laneway explain vgpudevice/node1-000008004
"""
)
@click.argument("object_", metavar="OBJECT")
@simulate_option
@click.option(
    "--kubeconfig",
    metavar="PATH",
    help="How to reach the API server, for objects; otherwise as kubectl finds it.",
)
def explain(object_: str, simulate: str | None, kubeconfig: str | None) -> None:
    """Explain one device: its state, and why a VM can or cannot use it.

    OBJECT is a PCI address (0000:08:00.0, or short 08:00.0) or a USB port (1-4.2) of this host,
    or an object of the cluster: NODE/ADDRESS of a device, KIND/NAME, or NAME alone where only one
    kind has it.
    """
    if (address := pci_address(object_)) is not None:
        shown = _pci(look(simulate), address)
    elif is_usb_port(object_):
        shown = _usb(look(simulate), object_)
    elif simulate is not None:
        raise click.UsageError(
            f"{object_!r} is neither a PCI address nor a USB port, and a simulated host has no"
            " other objects; leave --simulate out to ask the API server"
        )
    else:
        # The client is slow to import, and devices need none.
        from laneway.cli.cluster import fetch  # noqa: PLC0415 - slow to import
        from laneway.cli.explain_object import explain_object  # noqa: PLC0415 - slow to import

        shown = explain_object(fetch(object_, kubeconfig))
    page.show(shown)


def _pci(inventory: Inventory, address: PciAddress) -> page.Page:
    for function in inventory.functions:
        if function.address == address:
            return explain_pci(function, inventory)
    raise _missing(inventory, str(address), "PCI device")


def _usb(inventory: Inventory, port: str) -> page.Page:
    for device in inventory.usb:
        if device.port == port:
            return explain_usb(device, inventory)
    raise _missing(inventory, port, "USB device")


def _missing(inventory: Inventory, device: str, kind: str) -> Failure:
    for error in inventory.errors:
        if error.device == device:
            return Failure(f"{device} cannot be read: {error.message}")
    return Failure(f"no {kind} {device} on this host; 'laneway devices --all' lists what there is")
