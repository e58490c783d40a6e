"""What would have to be in KubeVirt's lists for VMs to request a device."""

from __future__ import annotations

from typing import assert_never

from laneway.core import permitted
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.inventory import Inventory


class Entries:
    """For devices as an inventory shows them."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._usb = {(device.bus, device.number): device for device in inventory.usb}

    def of(self, offer: Offer) -> permitted.Entry | None:
        """None where too little is known of the device."""
        match offer.form:
            case Form.PCI:
                function = self._inventory.function(offer.address) if offer.address else None
                if function is None:
                    return None
                return permitted.pci(function.vendor, function.device, offer.resource)
            case Form.MDEV:
                vgpu = self._inventory.vgpu(offer.address) if offer.address else None
                if vgpu is None or vgpu.configured is None:
                    return None
                return permitted.mdev(vgpu.configured.type_name, offer.resource)
            case Form.USB:
                device = self._usb.get(offer.usb) if offer.usb else None
                if device is None:
                    return None
                return permitted.usb(device.vendor, device.product, offer.resource)
            case _:
                assert_never(offer.form)
