"""What a person calls a device: vendor and product, or its ids and class if they have no name."""

from __future__ import annotations

from laneway.core import ids
from laneway.core.inventory import UsbDevice
from laneway.core.pci import PciFunction


def pci(function: PciFunction) -> str:
    """`NVIDIA Corporation AD104GL [L4]`."""
    vendor = ids.pci_vendor(function.vendor) or f"Vendor {function.vendor}"
    if product := ids.pci_device(function.vendor, function.device):
        return f"{vendor} {product}"
    return f"{vendor} Device {function.device} ({pci_class(function)})"


def pci_class(function: PciFunction) -> str:
    """`3D controller`."""
    code = function.class_code
    return ids.pci_subclass(code) or ids.pci_class(code) or f"Class {code[:4] or 'unknown'}"


def board(function: PciFunction) -> str:
    """The card that carries the chip, which tells an A2 from an A16; empty when not known."""
    return ids.pci_subsystem(
        function.vendor, function.device, function.subsystem_vendor, function.subsystem_device
    )


def usb(device: UsbDevice) -> str:
    """Names of the database, else what the device says of itself."""
    vendor = ids.usb_vendor(device.vendor) or f"Vendor {device.vendor}"
    product = ids.usb_product(device.vendor, device.product) or device.product_name
    return f"{vendor} {product or f'Product {device.product}'}"
