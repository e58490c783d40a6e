"""VGPUDevice: one object per VF that can carry a vGPU."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import (
    VGPU_CONFIGURED,
    Condition,
    ObjectMeta,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    find_condition,
)
from laneway.controllers.devices.family import ready, unreadable
from laneway.core import keys, names
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress
from laneway.core.refusals import Refusal, WriteFailed, explain
from laneway.core.vgpu import VgpuWish


def wanted(inventory: Inventory, node: str) -> Mapping[str, VGPUDevice]:
    """One object per function; a vGPU that exists already is adopted as enabled."""
    objects = {}
    for function in inventory.vgpus:
        name = names.pci_object_name(node, function.address)
        parent = names.pci_object_name(node, function.parent)
        current = function.configured
        objects[name] = VGPUDevice(
            metadata=ObjectMeta(
                name=name,
                labels={keys.LABEL_NODE: node, keys.LABEL_PARENT_GPU: parent},
            ),
            spec=VGPUDeviceSpec(
                address=str(function.address),
                node_name=node,
                parent_gpu_device_address=str(function.parent),
                enabled=current is not None,
                vgpu_type_name="" if current is None else current.type_name,
            ),
            status=_status(function),
        )
    return objects


def _status(function: VgpuFunction) -> VGPUDeviceStatus:
    available = {kind.name: kind.id for kind in function.creatable}
    current = function.configured
    if current is None:
        return VGPUDeviceStatus(available_types=available, framework=function.framework)
    return VGPUDeviceStatus(
        vgpu_status=VGPU_CONFIGURED,
        # The contract's key for both frameworks: the type id where there is no UUID.
        uuid=current.uuid or current.type_id,
        configure_vgpu_type_name=current.type_name,
        available_types=available,
        framework=function.framework,
    )


def wish(stored: VGPUDevice) -> VgpuWish:
    """What the object asks for. Raises ValueError when its address is none."""
    return VgpuWish(
        address=PciAddress.parse(stored.spec.address),
        enabled=stored.spec.enabled,
        profile=stored.spec.vgpu_type_name,
        explicit=_explicit(stored),
    )


def _explicit(stored: VGPUDevice) -> bool:
    """Whether the spec changed since it was last acted on, or acting on it failed half way.

    An object that was never acted on proves no wish: it may come from a backup, written while
    another vGPU was here.
    """
    acted_on = stored.status.observed_generation
    if acted_on not in (0, stored.metadata.generation):
        return True
    condition = find_condition(stored.status.conditions, "Ready")
    return condition is not None and condition.reason == WriteFailed.__name__


def status(
    stored: VGPUDevice, wanted: VGPUDevice | None, refusal: Refusal | None
) -> VGPUDeviceStatus:
    """What is, and whether it is what the spec asks for."""
    observed = VGPUDeviceStatus() if wanted is None else wanted.status
    return msgspec.structs.replace(observed, conditions=[_ready(stored, refusal)])


def _ready(stored: VGPUDevice, refusal: Refusal | None) -> Condition:
    if refusal is not None:
        return ready(refusal.reason, explain(refusal), status=False)
    if stored.spec.enabled:
        return ready("Configured", f"{stored.spec.vgpu_type_name} is configured.")
    return ready("NotConfigured", "No vGPU is asked for, and there is none.")


def keep(stored: VGPUDevice, inventory: Inventory, *, gpu_enabled: bool) -> bool:
    """The wish outlives the VF while the GPU is there and is meant to have VFs (reboot)."""
    parent = stored.spec.parent_gpu_device_address
    present = any(str(function.address) == parent for function in inventory.functions)
    return (gpu_enabled and present) or unreadable(inventory, [stored.spec.address, parent])
