"""VGPUDevice: one object per VF that can carry a vGPU."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import (
    VGPU_CONFIGURED,
    ObjectMeta,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.controllers.devices.family import ready, unreadable
from laneway.controllers.devices.wishes import Answers, explicit
from laneway.core import keys, names
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress
from laneway.core.refusals import WrongDevice
from laneway.core.vgpu import VgpuWish

ANSWERS = Answers(
    settled={"Configured", "NotConfigured", "ConfiguredElsewhere", "OtherProfileRunning"},
    absent={"NotConfigured", "ConfiguredElsewhere"},
)


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


def wrong_device(stored: VGPUDevice, node: str) -> WrongDevice | None:
    """What is wrong when an object does not speak of the device that it is named for."""
    spec = stored.spec
    try:
        named = names.pci_object_name(node, PciAddress.parse(spec.address))
    except ValueError:
        named = ""
    if named == stored.metadata.name and spec.node_name in ("", node):
        return None
    return WrongDevice(stored.metadata.name, spec.address, spec.node_name)


def wish(stored: VGPUDevice, shown: VGPUDevice, our_uuid: str) -> VgpuWish:
    """What the object asks for in view of what is. Raises ValueError when its address is none.

    `our_uuid`: of an mdev that Laneway makes here.
    """
    observed = shown.status
    return VgpuWish(
        address=PciAddress.parse(stored.spec.address),
        enabled=stored.spec.enabled,
        profile=stored.spec.vgpu_type_name,
        explicit=explicit(
            stored,
            ANSWERS,
            asks=stored.spec.enabled,
            seen=_vgpu(stored.status) == _vgpu(observed),
            ours=observed.framework != "mdev" or observed.uuid == our_uuid,
        ),
    )


def _vgpu(status: VGPUDeviceStatus) -> tuple[str, str]:
    return status.uuid, status.configure_vgpu_type_name


def status(stored: VGPUDevice, shown: VGPUDevice) -> VGPUDeviceStatus:
    """What is, where that is what the spec asks for."""
    observed = shown.status
    if stored.spec.enabled:
        condition = ready("Configured", f"{_profile(observed)} is configured.")
    else:
        condition = ready("NotConfigured", "No vGPU is asked for, and there is none.")
    return msgspec.structs.replace(observed, conditions=[condition])


def _profile(observed: VGPUDeviceStatus) -> str:
    return observed.configure_vgpu_type_name or "A vGPU of an unknown profile"


def parent_name(stored: VGPUDevice, node: str) -> str:
    """Name of the SRIOVGPUDevice that the function belongs to; empty when the spec names none."""
    try:
        parent = PciAddress.parse(stored.spec.parent_gpu_device_address)
    except ValueError:
        return ""
    return names.pci_object_name(node, parent)


def keep(stored: VGPUDevice, inventory: Inventory, *, gpu_enabled: bool) -> bool:
    """The wish outlives the VF while the GPU is there and is meant to have VFs (reboot)."""
    parent = stored.spec.parent_gpu_device_address
    present = any(str(function.address) == parent for function in inventory.functions)
    return (gpu_enabled and present) or unreadable(inventory, [stored.spec.address, parent])
