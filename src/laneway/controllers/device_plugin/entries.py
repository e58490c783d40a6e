"""What would have to be in KubeVirt's lists for VMs to ask for a device."""

from __future__ import annotations

from laneway.core import permitted
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress


class Entries:
    """For devices as an inventory shows them."""

    def __init__(self, inventory: Inventory) -> None:
        self._functions = {function.address: function for function in inventory.functions}
        self._profiles: dict[PciAddress, str] = {
            vgpu.address: vgpu.configured.type_name for vgpu in inventory.vgpus if vgpu.configured
        }
        self._usb = {(device.bus, device.number): device for device in inventory.usb}

    def of(self, offer: Offer) -> permitted.Entry | None:
        """None where too little is known of the device."""
        match offer.form:
            case Form.PCI if offer.address in self._functions:
                function = self._functions[offer.address]
                return permitted.pci(function.vendor, function.device, offer.resource)
            case Form.MDEV if offer.address in self._profiles:
                return permitted.mdev(self._profiles[offer.address], offer.resource)
            case Form.USB if offer.usb in self._usb:
                device = self._usb[offer.usb]
                return permitted.usb(device.vendor, device.product, offer.resource)
        return None
