"""KubeVirt's entries that Harvester's controller made for what is claimed become Laneway's.

Harvester's controller never removes an entry. Laneway removes its own with the last claim of a
resource, and knows them by an annotation on the KubeVirt; a takeover names there those that stand
for a device that is claimed or a vGPU that is configured. The lists themselves are not touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from laneway.api import (
    VGPU_CONFIGURED,
    PCIDevice,
    PCIDeviceClaim,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
)
from laneway.controllers.doctor.objects import Asking
from laneway.core import keys, names, permitted
from laneway.core.permitted import Key
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError, KubeError
from laneway.kube.kubevirt import KUBEVIRTS, KubeVirt, lists_of
from laneway.kube.resource import KubeObject, Resource, served

_ATTEMPTS = 5
_CLAIMS, _DEVICES = served(PCIDeviceClaim), served(PCIDevice)
_USB_CLAIMS, _USB, _VGPUS = served(USBDeviceClaim), served(USBDevice), served(VGPUDevice)
STANDING: tuple[Resource[KubeObject], ...] = _CLAIMS, _DEVICES, _USB_CLAIMS, _USB, _VGPUS
"""What tells which entries stand for something."""


async def device_status(asking: Asking) -> set[Key]:
    """What the entries of everything that is claimed or configured look like to KubeVirt."""
    claims, devices, sticks, usb, vgpus = await asyncio.gather(
        asking.all(_CLAIMS),
        asking.all(_DEVICES),
        asking.all(_USB_CLAIMS),
        asking.all(_USB),
        asking.all(_VGPUS),
    )
    claimed = {one.metadata.name: one for one in claims}
    plugged = {one.metadata.name for one in sticks}
    found = [_pci(one, claimed) for one in devices if one.metadata.name in claimed]
    found += [
        permitted.usb(one.status.vendor_id, one.status.product_id, one.status.resource_name)
        for one in usb
        if one.metadata.name in plugged
    ]
    found += [
        permitted.mdev(profile, names.vgpu_resource_name(profile))
        for one in vgpus
        if one.status.vgpu_status == VGPU_CONFIGURED
        and (profile := one.status.configure_vgpu_type_name)
    ]
    return {permitted.key_of(one) for one in found if one is not None}


def _pci(device: PCIDevice, claims: Mapping[str, PCIDeviceClaim]) -> permitted.Entry | None:
    status = device.status
    claim = claims[device.metadata.name]
    resource = claim.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, status.resource_name)
    return permitted.pci(status.vendor_id, status.device_id, resource)


def adoptable(kubevirt: KubeVirt, wanted: set[Key]) -> set[Key]:
    """Those that are in the lists, from an external plugin, and not Laneway's yet."""
    there = {
        key
        for name, items in lists_of(kubevirt).items()
        for item in items
        if (key := permitted.key_of_item(name, item)) is not None and permitted.is_external(item)
    }
    return (there & wanted) - set(_record(kubevirt))


async def adopt(client: Client) -> int:
    """Note whose they are from now on; how many are new. Raises KubeError."""
    wanted = await device_status(Asking(client, insisting=True))
    return sum([await _noted(client, one, wanted) for one in await _kubevirts(client)])


async def disown(client: Client) -> None:
    """Forget it, so that they are Harvester's again. Raises KubeError."""
    for one in await _kubevirts(client):
        if keys.ANNOTATION_PERMITTED in one.metadata.annotations:
            await _annotate(client, one, "")


async def _kubevirts(client: Client) -> list[KubeVirt]:
    return await Asking(client, insisting=True).all(KUBEVIRTS)


async def _noted(client: Client, kubevirt: KubeVirt, wanted: set[Key]) -> int:
    meta = kubevirt.metadata
    for _ in range(_ATTEMPTS):
        new = adoptable(kubevirt, wanted)
        if not new:
            return 0
        text = permitted.record_text(_record(kubevirt) | dict.fromkeys(new, False))
        try:
            await _annotate(client, kubevirt, text)
        except ConflictError:
            kubevirt = await client.get(KUBEVIRTS, meta.name, meta.namespace)
            continue
        return len(new)
    raise KubeError(f"KubeVirt {meta.namespace}/{meta.name}: another client keeps changing it")


async def _annotate(client: Client, kubevirt: KubeVirt, text: str) -> None:
    meta = kubevirt.metadata
    change = {
        "resourceVersion": meta.resource_version,
        "annotations": {keys.ANNOTATION_PERMITTED: text or None},
    }
    await client.patch(KUBEVIRTS, meta.name, {"metadata": change}, meta.namespace)


def _record(kubevirt: KubeVirt) -> dict[Key, bool]:
    try:
        return permitted.read_record(
            kubevirt.metadata.annotations.get(keys.ANNOTATION_PERMITTED, "")
        )
    except ValueError:
        return {}  # It was spoilt by hand; what it named is another's since.
