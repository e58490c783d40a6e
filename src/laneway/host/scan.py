"""One complete look at a node.

Every part is read on its own: what is odd about one device, or missing on a machine altogether
(USB, network, even PCI), is reported and takes nothing else with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from laneway.core.inventory import DeviceError, Inventory, VgpuFunction
from laneway.core.pci import PciFunction
from laneway.host import console, critical, network, storage
from laneway.host.attributes import clean, describe
from laneway.host.nvidia.identity import read_identities
from laneway.host.pci import DEVICES, PciDevice, read_functions
from laneway.host.port import Host
from laneway.host.usb import read_usb
from laneway.host.vgpu import in_order, read_vgpus


def scan(host: Host) -> Inventory:
    """Read everything. Blocks on files only: run it in a thread where a loop must not wait."""
    errors: list[DeviceError] = []
    devices = _devices(host, errors)
    vgpus = read_vgpus(devices)
    odd = [error for device in devices for error in device.attributes.errors]
    return assemble(host, [device.function for device in devices], vgpus, Errors(errors, odd))


class Errors(NamedTuple):
    """What was odd about PCI functions."""

    left_out: Sequence[DeviceError]
    """About those of which there is no function, or none of what there is."""
    of_functions: Sequence[DeviceError]
    """About the functions that there are, in their order."""


def assemble(
    host: Host,
    functions: Sequence[PciFunction],
    vgpus: Iterable[VgpuFunction],
    errors_of_pci: Errors,
) -> Inventory:
    """The inventory of the functions, sorted by address, with all that is no function read now.

    That costs little, and what the node needs can change without any event.
    """
    errors = list(errors_of_pci.left_out)
    interfaces = network.read_interfaces(host, errors)
    usb = read_usb(host, errors)
    needs = [
        *storage.needs(host),
        *network.needs(host, interfaces),
        *network.hidden(host, functions, interfaces),
        *console.needs(host),
    ]
    found = critical.decide(functions, needs)
    inventory = Inventory(
        functions=tuple(functions),
        vgpus=tuple(in_order(vgpus, functions)),
        interfaces=tuple(interfaces.on_pci),
        usb=tuple(usb),
        critical=found.functions,
        critical_usb=found.usb,
        displays=found.displays,
        nvidia_driver=driver_version(host),
        errors=(*errors, *errors_of_pci.of_functions),
    )
    return identify(host, inventory)


def identify(host: Host, inventory: Inventory) -> Inventory:
    """The inventory with the cards' identities as the driver tells them now.

    It knows that of a GPU only once it was asked something.
    """
    reported = read_identities(host, inventory.functions)
    vgpus = (_on_card(vgpu, reported.get(vgpu.parent, "")) for vgpu in inventory.vgpus)
    return replace(inventory, identities=reported, vgpus=tuple(vgpus))


def _on_card(vgpu: VgpuFunction, card: str) -> VgpuFunction:
    return vgpu if vgpu.card == card else replace(vgpu, card=card)


def _devices(host: Host, errors: list[DeviceError]) -> list[PciDevice]:
    try:
        return read_functions(host, errors)
    except OSError as error:
        errors.append(DeviceError(DEVICES, f"no PCI devices can be read: {describe(error)}"))
        return []


def driver_version(host: Host) -> str:
    """The version of NVIDIA's driver in the kernel; empty where none is."""
    try:
        return clean(host.read("/sys/module/nvidia/version"))
    except OSError:
        return ""
