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
    find_condition,
)
from laneway.controllers.devices.family import ready, unreadable
from laneway.core import keys, names
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan
from laneway.core.refusals import Refusal, WriteFailed, WrongDevice
from laneway.core.vgpu import VgpuWish
from laneway.core.words import describe, explain

IN_PROGRESS = "InProgress"
"""Reason of the Ready condition while a plan is carried out."""


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


def wish(stored: VGPUDevice, observed: VGPUDeviceStatus, our_uuid: str) -> VgpuWish:
    """What the object asks for in view of what is. Raises ValueError when its address is none.

    `our_uuid`: of an mdev that Laneway makes here.
    """
    return VgpuWish(
        address=PciAddress.parse(stored.spec.address),
        enabled=stored.spec.enabled,
        profile=stored.spec.vgpu_type_name,
        explicit=_explicit(stored, observed, our_uuid),
    )


_SETTLED = {"Configured", "NotConfigured", "ConfiguredElsewhere", "OtherProfileRunning"}
"""Answers to a wish after which nothing is left to be done for it."""
_TO_ABSENCE = {"NotConfigured", "ConfiguredElsewhere"}
"""Answers that are given only to objects that ask for no vGPU."""


def _explicit(stored: VGPUDevice, observed: VGPUDeviceStatus, our_uuid: str) -> bool:
    """Whether the object asks for what runs to be taken away.

    The last answer is the journal. An object that was never answered proves no wish: it may come
    from a backup, written while another vGPU was here. One that asked for no vGPU then and asks for
    none now does not either, whatever else changed in it. Any other wish speaks of what the last
    answer shows, or of what an attempt made that was interrupted before it could be answered.
    """
    status = stored.status
    answer = find_condition(status.conditions, "Ready")
    if answer is None or status.observed_generation == 0:
        return False
    seen = _vgpu(status) == _vgpu(observed)
    if status.observed_generation != stored.metadata.generation:
        ours = answer.reason == IN_PROGRESS and (
            observed.framework != "mdev" or observed.uuid == our_uuid
        )
        return (seen or ours) and (stored.spec.enabled or answer.reason not in _TO_ABSENCE)
    return answer.reason not in _SETTLED and seen


def _vgpu(status: VGPUDeviceStatus) -> tuple[str, str]:
    return status.uuid, status.configure_vgpu_type_name


def status(
    stored: VGPUDevice, wanted: VGPUDevice | None, refusal: Refusal | None
) -> VGPUDeviceStatus:
    """What is, and whether it is what the spec asks for."""
    observed = observed_of(wanted)
    if refusal is not None:
        condition = ready(refusal.reason, explain(refusal), status=False)
    elif stored.spec.enabled:
        condition = ready("Configured", f"{_profile(observed)} is configured.")
    else:
        condition = ready("NotConfigured", "No vGPU is asked for, and there is none.")
    return msgspec.structs.replace(observed, conditions=[condition])


def in_progress(wanted: VGPUDevice | None, plan: Plan) -> VGPUDeviceStatus:
    """What is while a plan is carried out; stored before it begins, so that a restart knows."""
    steps = "; ".join(describe(step) for step in plan.steps)
    condition = ready(IN_PROGRESS, f"Being done: {steps}.", status=False)
    return msgspec.structs.replace(observed_of(wanted), conditions=[condition])


def begun(stored: VGPUDevice) -> bool:
    """Whether the stored status tells already that the present wish is being carried out."""
    answer = find_condition(stored.status.conditions, "Ready")
    return (
        answer is not None
        and answer.observed_generation == stored.metadata.generation
        and answer.reason in (IN_PROGRESS, WriteFailed.__name__)
    )


def answered(stored: VGPUDevice, refusal: Refusal) -> bool:
    """Whether the present wish has been refused with this reason already."""
    answer = find_condition(stored.status.conditions, "Ready")
    return (
        answer is not None
        and answer.observed_generation == stored.metadata.generation
        and answer.reason == refusal.reason
    )


def observed_of(wanted: VGPUDevice | None) -> VGPUDeviceStatus:
    """What hardware shows; nothing where the function is not there."""
    return VGPUDeviceStatus() if wanted is None else wanted.status


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
