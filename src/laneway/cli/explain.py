"""`laneway explain`: everything known about one device or VM, and whether it can be used.

The host itself answers about an address or a USB port, without a cluster; anything else names an
object of the API. The text alone tells which: no object has a `:` in its name, and none of ours
looks like a port.
"""

from __future__ import annotations

import click

from laneway.cli import page
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.devices import plain
from laneway.cli.errors import Failure
from laneway.cli.output import View, show
from laneway.cli.source import look
from laneway.cli.suggest import did_you_mean
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, pci_address
from laneway.host.paths import is_usb_port
from laneway.views.explain.device import explain_pci, explain_usb


def explain(object_: str, simulate: str | None, output: str | None, where: ClusterChoice) -> None:
    """Print what is known about one thing. Raises Failure."""
    if (address := pci_address(object_)) is not None:
        view = _pci(look(simulate), address)
    elif is_usb_port(object_):
        view = _usb(look(simulate), object_)
    elif simulate is not None:
        raise click.UsageError(
            f"{object_!r} is neither a PCI address nor a USB port. A simulated host has no other "
            "objects; leave --simulate out to ask the API server"
        )
    else:
        # The client is slow to import, and devices of this host need none.
        from laneway.cli.explain_cluster import view_of  # noqa: PLC0415 - slow to import

        view = view_of(object_, where)
    show(view, output)


def _pci(inventory: Inventory, address: PciAddress) -> View:
    for function in inventory.functions:
        if function.address == address:
            shown = explain_pci(function, inventory)
            return page.view(shown, document=plain(function), name=str(address))
    known = [str(function.address) for function in inventory.functions]
    raise _missing(inventory, str(address), "PCI device", known)


def _usb(inventory: Inventory, port: str) -> View:
    for device in inventory.usb:
        if device.port == port:
            shown = explain_usb(device, inventory)
            return page.view(shown, document=plain(device), name=port)
    raise _missing(inventory, port, "USB device", [device.port for device in inventory.usb])


def _missing(inventory: Inventory, device: str, kind: str, known: list[str]) -> Failure:
    for error in inventory.errors:
        if error.device == device:
            return Failure(f"{device} cannot be read: {error.message}")
    meant = did_you_mean(device, known)
    return Failure(
        f"this host has no {kind} {device}. {meant} 'laneway devices --all' lists its devices; a "
        "device of another node is NODE/ADDRESS, for example node1/08:00.0"
    )
