"""SRIOVGPUDevice: NVIDIA GPUs that can have VFs for vGPUs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import (
    ObjectMeta,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
)
from laneway.controllers.devices.family import Family, ready, unreadable
from laneway.controllers.devices.wishes import Answers, explicit
from laneway.core import keys, names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.vf_wish import VfWish

ANSWERS = Answers(
    settled={"Enabled", "Disabled", "VfsElsewhere"}, absent={"Disabled", "VfsElsewhere"}
)


def wanted(inventory: Inventory, node: str) -> Mapping[str, SRIOVGPUDevice]:
    """One object per GPU; one that has VFs already is adopted as enabled."""
    objects = {}
    for function in inventory.functions:
        if not function.sriov_gpu:
            continue
        name = names.pci_object_name(node, function.address)
        objects[name] = SRIOVGPUDevice(
            metadata=ObjectMeta(name=name, labels={keys.LABEL_NODE: node}),
            spec=SRIOVGPUDeviceSpec(
                address=str(function.address),
                node_name=node,
                enabled=function.num_vfs > 0,
            ),
            status=SRIOVGPUDeviceStatus(
                vf_addresses=[str(address) for address in function.vfs],
                vgpu_devices=[names.pci_object_name(node, vf) for vf in function.vfs],
            ),
        )
    return objects


def wish(stored: SRIOVGPUDevice, shown: SRIOVGPUDevice) -> VfWish:
    """What the object asks for in view of what is."""
    return VfWish(
        address=PciAddress.parse(shown.spec.address),
        count=None if stored.spec.enabled else 0,
        explicit=explicit(
            stored,
            ANSWERS,
            asks=stored.spec.enabled,
            seen=list(stored.status.vf_addresses) == list(shown.status.vf_addresses),
        ),
    )


def status(stored: SRIOVGPUDevice, shown: SRIOVGPUDevice) -> SRIOVGPUDeviceStatus:
    """What is, where that is what the spec asks for."""
    count = len(shown.status.vf_addresses)
    if stored.spec.enabled:
        condition = ready("Enabled", f"The GPU has {count} virtual functions for vGPUs.")
    else:
        condition = ready("Disabled", "No virtual functions are asked for, and there are none.")
    return msgspec.structs.replace(shown.status, conditions=[condition])


def keep(stored: SRIOVGPUDevice, inventory: Inventory) -> bool:
    """A GPU that could not be read is not gone."""
    return unreadable(inventory, [stored.spec.address])


FAMILY = Family(SRIOVGPUDevice, wanted, status, keep)
