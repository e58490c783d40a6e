"""For whom a claim is.

A claim is for the user that it names. The claim of a vGPU, and one without a user, is for all. That
a claim says to be a vGPU's is not enough, its author could write that: there is one.
"""

from __future__ import annotations

from laneway.api import PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.kube.store import Store

PCI_CLAIMS = "pcideviceclaims"
USB_CLAIMS = "usbdeviceclaims"
USE = "use"
"""The verb on the claims of others; only an administrator has it without a grant."""
EVERYBODY = ""

Claim = PCIDeviceClaim | USBDeviceClaim


def plural_of(claim: Claim) -> str:
    return USB_CLAIMS if isinstance(claim, USBDeviceClaim) else PCI_CLAIMS


def user_of(claim: Claim, vgpus: Store[VGPUDevice]) -> str:
    """For whom a claim is."""
    is_vgpus = vgpus.get(claim.metadata.name) is not None and bool(vgpu_of(claim))
    return EVERYBODY if is_vgpus else claim.spec.user_name


def vgpu_of(claim: Claim) -> str:
    """Name of the VGPUDevice that a claim says it was made for; empty for any other claim."""
    owners = claim.metadata.owner_references
    return next((owner.name for owner in owners if owner.kind == "VGPUDevice"), "")
