"""VGPUDevice: one object per VF that can carry a vGPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec

from laneway.api import (
    VGPU_CONFIGURED,
    Condition,
    ObjectMeta,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    decode,
    find_condition,
)
from laneway.controllers.device_plugin.permission import Say
from laneway.controllers.device_plugin.status import NOT_CONFIGURED, NOT_READY, DeviceStatus
from laneway.controllers.devices.family import named_otherwise, ready, unreadable
from laneway.controllers.devices.outcome import Answers, explicit
from laneway.core import keys, names
from laneway.core.inventory import Inventory, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress
from laneway.core.phrases import counted, short_name
from laneway.core.refusals import NameMismatch
from laneway.core.vgpu.desired import DesiredVgpu, carried
from laneway.core.vgpu.offer import lacking

_NO_VGPU = "No vGPU is requested, and the function has none."

ANSWERS = Answers(
    settled={
        "Configured",
        "NotConfigured",
        "UnmanagedVgpu",
        "UnmanagedProfile",
        "CardReplaced",
    },
    absent={"NotConfigured", "UnmanagedVgpu"},
)


def wanted(
    inventory: Inventory, node: str, among: Collection[PciAddress] | None = None
) -> Mapping[str, VGPUDevice]:
    """One object per function; a vGPU that exists already is adopted as enabled.

    `among`: only those of these GPUs.
    """
    objects = {}
    for gpu, of_gpu in inventory.by_gpu().items():
        if among is not None and gpu not in among:
            continue
        parent = names.pci_object_name(node, gpu)
        nothing = _nothing(inventory, gpu, of_gpu)
        for function in of_gpu:
            name = names.pci_object_name(node, function.address)
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
                status=_status(function, nothing),
            )
    return objects


def _nothing(inventory: Inventory, gpu: PciAddress, functions: Collection[VgpuFunction]) -> str:
    """Why no vGPU can be made on a function to which the driver offers none."""
    physical = inventory.function(gpu)
    modes = inventory.modes.get(gpu)
    if physical and (why := lacking(physical, functions, modes, inventory.nvidia_driver)):
        return why.words
    there = carried(functions)
    return f"The GPU has {counted(there)}." if there else "The driver offers no profile."


def _available(creatable: tuple[VgpuType, ...]) -> Mapping[str, str]:
    """Ids by names of profiles."""
    return _one(tuple([(kind.name, kind.id) for kind in creatable]))


@lru_cache(maxsize=64)
def _one(profiles: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """One map of the same profiles, because the dozens of functions of a GPU list the same."""
    return dict(profiles)


def decoded(kind: type[VGPUDevice], raw: bytes | msgspec.Raw) -> VGPUDevice:
    """An object for a cache, which has its profiles in common with others. Raises DecodeError."""
    one = decode(kind, raw)
    profiles = _one(tuple(one.status.available_types.items()))
    status = msgspec.structs.replace(one.status, available_types=profiles)
    return msgspec.structs.replace(one, status=status)


def _status(function: VgpuFunction, nothing: str) -> VGPUDeviceStatus:
    """What is, with the answer to an object that requests just that."""
    available = _available(function.creatable)
    current = function.configured
    if current is None:
        why = "" if available else f" None can be configured: {nothing}"
        return VGPUDeviceStatus(
            available_types=available,
            framework=function.framework,
            conditions=[ready("NotConfigured", _NO_VGPU + why)],
        )
    profile = short_name(current.type_name) or "A vGPU of an unknown profile"
    return VGPUDeviceStatus(
        vgpu_status=VGPU_CONFIGURED,
        # The contract's key for both frameworks: the type id where there is no UUID.
        uuid=current.uuid or current.type_id,
        configure_vgpu_type_name=current.type_name,
        available_types=available,
        framework=function.framework,
        placement=current.placement,
        gpu_instance=current.gpu_instance,
        conditions=[ready("Configured", f"{profile} is configured.")],
    )


def wrong_device(stored: VGPUDevice, node: str) -> NameMismatch | None:
    """What is wrong when an object does not speak of the device that it is named for."""
    spec = stored.spec
    return named_otherwise(stored.metadata.name, spec.address, spec.node_name, node)


def desired(stored: VGPUDevice, shown: VGPUDevice, our_uuids: Collection[str]) -> DesiredVgpu:
    """What the object requests in view of what is. Raises ValueError when its address is none.

    `our_uuids`: those of an mdev that Laneway makes here, or made before an upgrade.
    """
    observed = shown.status
    return DesiredVgpu(
        address=PciAddress.parse(stored.spec.address),
        enabled=stored.spec.enabled,
        profile=stored.spec.vgpu_type_name,
        explicit=explicit(
            stored,
            ANSWERS,
            asks=stored.spec.enabled,
            seen=_vgpu(stored.status) == _vgpu(observed),
            ours=observed.framework != "mdev" or observed.uuid in our_uuids,
        ),
    )


def _vgpu(status: VGPUDeviceStatus) -> tuple[str, str]:
    return status.uuid, status.configure_vgpu_type_name


def status(_stored: VGPUDevice, shown: VGPUDevice) -> VGPUDeviceStatus:
    """What is, where that is what the spec requests."""
    observed = shown.status
    if observed.conditions:
        return observed
    return msgspec.structs.replace(observed, conditions=[ready("NotConfigured", _NO_VGPU)])


def on_its_way(
    stored: VGPUDevice, status: VGPUDeviceStatus, device_status: DeviceStatus
) -> VGPUDeviceStatus:
    """A status with how far the vGPU is on its way to VMs, if it is there or was."""
    said = find_condition(stored.status.conditions, "Advertised") is not None
    if not (status.configure_vgpu_type_name or said):
        return status
    if device_status == NOT_READY and not (stored.spec.enabled or status.configure_vgpu_type_name):
        device_status = NOT_CONFIGURED
    return msgspec.structs.replace(
        status,
        resource_name=device_status.resource,
        allocation=device_status.owner,
        conditions=[
            *status.conditions,
            _said("Permitted", device_status.permitted_why, holds=device_status.permitted is True),
            _said("Advertised", device_status.advertised_why, holds=device_status.advertised),
        ],
    )


def _said(condition: str, say: Say, *, holds: bool) -> Condition:
    return Condition(
        type=condition,
        status="True" if holds else "False",
        reason=say.reason,
        message=say.message,
    )


def remembering(stored: VGPUDevice, status: VGPUDeviceStatus) -> VGPUDeviceStatus:
    """The status of a desired vGPU that is missing: what it was when it last existed."""
    if status.configure_vgpu_type_name or not stored.spec.enabled:
        return status
    profile, place = last(stored)
    return msgspec.structs.replace(status, last_type_name=profile, last_placement=place)


def last(stored: VGPUDevice) -> tuple[str, int | None]:
    """Profile and first memory slot of the vGPU that is here, or was."""
    known = stored.status
    if known.configure_vgpu_type_name:
        return known.configure_vgpu_type_name, known.placement
    return known.last_type_name, known.last_placement


def parent_name(stored: VGPUDevice, node: str) -> str:
    """Name of the SRIOVGPUDevice that the function belongs to; empty when the spec names none."""
    try:
        parent = PciAddress.parse(stored.spec.parent_gpu_device_address)
    except ValueError:
        return ""
    return names.pci_object_name(node, parent)


def keep(stored: VGPUDevice, inventory: Inventory, *, gpu_enabled: bool) -> bool:
    """A spec outlives its VF. An object without one does while its VF can be expected to come."""
    address, parent = stored.spec.address, stored.spec.parent_gpu_device_address
    gpu = next((one for one in inventory.functions if str(one.address) == parent), None)
    expected = gpu is not None and (not gpu.vfs or address in map(str, gpu.vfs))
    return (
        stored.spec.enabled
        or (gpu_enabled and expected)
        or unreadable(inventory, [address, parent])
    )
