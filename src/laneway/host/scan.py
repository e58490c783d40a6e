"""One complete look at a node.

Every part is read on its own: what is odd about one device, or missing on a machine altogether
(USB, network, even PCI), is reported and takes nothing else with it.
"""

from __future__ import annotations

from msgspec.structs import replace

from laneway.core.inventory import DeviceError, Inventory
from laneway.host import console, critical, network, storage
from laneway.host.attributes import clean, describe
from laneway.host.nvidia.identity import read_identities
from laneway.host.pci import DEVICES, PciDevice, read_functions
from laneway.host.port import Host
from laneway.host.usb import read_usb
from laneway.host.vgpu import read_vgpus


def scan(host: Host) -> Inventory:
    """Read everything. Blocks on files only: run it in a thread where a loop must not wait."""
    errors: list[DeviceError] = []
    devices = _devices(host, errors)
    vgpus = read_vgpus(devices)
    interfaces = network.read_interfaces(host, errors)
    usb = read_usb(host, errors)
    for device in devices:
        errors += device.attributes.errors
    functions = tuple(device.function for device in devices)
    needs = [
        *storage.needs(host),
        *network.needs(host, interfaces),
        *network.hidden(host, functions, interfaces),
        *console.needs(host),
    ]
    found = critical.decide(functions, needs)
    inventory = Inventory(
        functions=functions,
        vgpus=tuple(vgpus),
        interfaces=tuple(interfaces.on_pci),
        usb=tuple(usb),
        critical=found.functions,
        critical_usb=found.usb,
        displays=found.displays,
        nvidia_driver=driver_version(host),
        errors=tuple(errors),
    )
    return identify(host, inventory)


def identify(host: Host, inventory: Inventory) -> Inventory:
    """The inventory with the cards' identities as the driver tells them now.

    It knows that of a GPU only once it was asked something.
    """
    reported = read_identities(host, inventory.functions)
    vgpus = (replace(vgpu, card=reported.get(vgpu.parent, "")) for vgpu in inventory.vgpus)
    return replace(inventory, identities=reported, vgpus=tuple(vgpus))


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
