"""SRIOVGPUDevice: NVIDIA GPUs that can have VFs for vGPUs."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import (
    ObjectMeta,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    Status,
)
from laneway.controllers.devices.family import Family, ready, unreadable
from laneway.controllers.devices.wishes import answer
from laneway.core import keys, names
from laneway.core.inventory import Inventory


def wanted(inventory: Inventory, node: str) -> Mapping[str, SRIOVGPUDevice]:
    """One object per GPU; one that has VFs already is adopted as enabled."""
    objects = {}
    for function in inventory.functions:
        if not function.sriov_gpu:
            continue
        name = names.pci_object_name(node, function.address)
        count = len(function.vfs)
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
                conditions=[ready("Observed", f"The GPU has {count} VFs for vGPUs.")],
            ),
        )
    return objects


def status(stored: SRIOVGPUDevice, wanted: SRIOVGPUDevice) -> Status:
    """What is, and whether it is what the spec asks for."""
    verb = "enable" if stored.spec.enabled else "disable"
    count = len(wanted.status.vf_addresses)
    return answer(
        wanted.status,
        asked=stored.spec.enabled,
        actual=wanted.spec.enabled,
        wish=f"{verb} SR-IOV on a GPU",
        state=f"The GPU has {count} VFs; sriov-manage on the node changes that.",
    )


def keep(stored: SRIOVGPUDevice, inventory: Inventory) -> bool:
    """A GPU that could not be read is not gone."""
    return unreadable(inventory, [stored.spec.address])


FAMILY = Family(SRIOVGPUDevice, wanted, status, keep)
