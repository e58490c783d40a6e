"""What would have to be in KubeVirt's lists for VMs to request a device."""

from __future__ import annotations

from typing import assert_never

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
            case Form.PCI:
                function = self._functions.get(offer.address) if offer.address else None
                if function is None:
                    return None
                return permitted.pci(function.vendor, function.device, offer.resource)
            case Form.MDEV:
                profile = self._profiles.get(offer.address) if offer.address else None
                return None if profile is None else permitted.mdev(profile, offer.resource)
            case Form.USB:
                device = self._usb.get(offer.usb) if offer.usb else None
                if device is None:
                    return None
                return permitted.usb(device.vendor, device.product, offer.resource)
            case _:
                assert_never(offer.form)
