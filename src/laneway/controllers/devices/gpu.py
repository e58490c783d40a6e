"""SRIOVGPUDevice: NVIDIA GPUs that can have VFs for vGPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from laneway.api import (
    ObjectMeta,
    PCIDeviceClaim,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    find_condition,
)
from laneway.controllers.devices.family import ready, unreadable
from laneway.controllers.devices.outcome import Answers, explicit
from laneway.core import keys, names
from laneway.core.gpu.desired import DesiredMode, effective, mode_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.reasons.former import renamed
from laneway.core.refusals import GpuClaimed
from laneway.core.sriov.vfs import NVIDIA_DRIVER, vf_count
from laneway.core.vgpu.capacity import still_fits
from laneway.core.vgpu.profiles import profiles_on

MISSING, LEFT = "CreatingVgpuDevices", "DeletingVgpuDevices"
"""Of a GPU that is as its spec asks, while its VGPUDevices are still made or deleted."""
_MET = frozenset({"Enabled", "Disabled", "NoGpuInstances", "MigOnly", "NoProfiles", MISSING, LEFT})
"""Answers to a desired state that the GPU meets."""

ANSWERS = Answers(
    settled=_MET | {"UnmanagedVfs", "UnmanagedMode", "CardReplaced"},
    absent={"Disabled", LEFT, "UnmanagedVfs"},
)


class Facts(NamedTuple):
    """All of an inventory that decides about the objects of its GPUs."""

    gpus: tuple[PciFunction, ...]
    vgpus: tuple[VgpuFunction, ...]
    modes: Mapping[PciAddress, GpuModes]
    identities: Mapping[PciAddress, str]
    driver: str


def facts(inventory: Inventory) -> Facts:
    """What `wanted` goes by, which compares faster than it is put in words."""
    return Facts(
        tuple([one for one in inventory.functions if one.sriov_gpu]),
        inventory.vgpus,
        inventory.modes,
        inventory.identities,
        inventory.nvidia_driver,
    )


def wanted(inventory: Inventory, node: str) -> Mapping[str, SRIOVGPUDevice]:
    """One object per GPU; one that has VFs already is adopted as enabled."""
    carriers = inventory.by_gpu()
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
            status=_observed(function, carriers.get(function.address, ()), inventory, node),
        )
    return objects


def _observed(
    gpu: PciFunction, functions: Sequence[VgpuFunction], inventory: Inventory, node: str
) -> SRIOVGPUDeviceStatus:
    modes = inventory.modes.get(gpu.address)
    carried = [one.configured for one in functions if one.configured]
    return SRIOVGPUDeviceStatus(
        vf_addresses=[str(address) for address in gpu.vfs],
        vgpu_devices=[names.pci_object_name(node, vf) for vf in gpu.vfs],
        mode=mode_of(gpu, modes) or "",
        configured=dict(sorted(Counter(one.type_name or one.type_id for one in carried).items())),
        fits=still_fits(gpu, functions, modes or GpuModes()),
        gpu_uuid=inventory.identities.get(gpu.address, ""),
        driver_version=inventory.nvidia_driver if gpu.driver == NVIDIA_DRIVER else "",
    )


def desired(
    stored: SRIOVGPUDevice, shown: SRIOVGPUDevice, *, mig_desired: bool, as_booted: bool = False
) -> DesiredMode:
    """What the object requests in view of what is.

    `mig_desired`: a MigConfiguration requests GPU instances. It has no answer here of its own, so
    it counts as a new desired state as long as what was answered last is as it was then.
    """
    spec, before, now = stored.spec, stored.status, shown.status
    answer = find_condition(before.conditions, "Ready")
    reason = renamed(answer.reason) if answer else ""
    mode_seen = "" in (before.mode, now.mode) or before.mode == now.mode
    seen = list(before.vf_addresses) == list(now.vf_addresses) and mode_seen
    current = before.observed_generation == stored.metadata.generation
    by_mig = mig_desired and not spec.mode and seen and current and reason in _MET
    asks = spec.enabled or effective(spec.mode, spec.enabled, mig_desired=False) is not None
    return DesiredMode(
        address=PciAddress.parse(shown.spec.address),
        enabled=spec.enabled,
        mode=spec.mode,
        mig_desired=mig_desired,
        explicit=by_mig or explicit(stored, ANSWERS, asks=asks, seen=seen),
        as_booted=as_booted and current,
    )


def profile_names(
    gpu: SRIOVGPUDevice, card: PCIDeviceStatus | None, functions: Iterable[VGPUDevice] = ()
) -> tuple[set[str], set[str]]:
    """The profiles of a GPU as its driver names them, and as the catalogue does, by its objects."""
    status = gpu.status
    # Those of which none fits now may be the catalogue's alone.
    driver = {name for name, left in status.fits.items() if left} | {*status.configured}
    for one in functions:
        driver.update(one.status.available_types)
        driver |= {one.spec.vgpu_type_name} - {""}
    known = profiles_on(card.device_id, card.subsystem_device_id) if card is not None else ()
    return driver, {one.name for one in known}


def claimed_whole(
    claims: Iterable[PCIDeviceClaim], node: str, gpu: PciFunction
) -> GpuClaimed | None:
    """Who has claimed a GPU that is not shared."""
    if vf_count(gpu):
        return None
    found = sorted(
        (one.metadata.name, one.spec.user_name)
        for one in claims
        if (one.spec.node_name, one.spec.address) == (node, str(gpu.address))
    )
    return GpuClaimed(str(gpu.address), *found[0]) if found else None


def status(
    stored: SRIOVGPUDevice, shown: SRIOVGPUDevice, *, complete: bool, left: bool
) -> SRIOVGPUDeviceStatus:
    """What is, where that is what the spec requests.

    A client that waits for it goes on with its functions, or with the GPU as a whole, so it is
    Ready last. `complete`: each function has a VGPUDevice that its agent has filled in. `left`: an
    object of the functions is there, or the GPU's own object still lists them.
    """
    count, mode = len(shown.status.vf_addresses), shown.status.mode
    if stored.spec.enabled:
        also = f", in mode {mode}" if mode else ""
        text = f"The GPU has {count} virtual functions for vGPUs{also}."
        if complete:
            condition = ready("Enabled", text)
        else:
            text += " Their VGPUDevices are being created."
            condition = ready(MISSING, text, status=False)
    elif left:
        text = "The GPU has no virtual functions. Their objects are being deleted."
        condition = ready(LEFT, text, status=False)
    else:
        also = f" The GPU is in mode {mode}." if mode else ""
        text = f"No virtual functions are requested, and the device has none.{also}"
        condition = ready("Disabled", text)
    return msgspec.structs.replace(shown.status, conditions=[condition])


def keep(stored: SRIOVGPUDevice, inventory: Inventory) -> bool:
    """A GPU that could not be read is not gone, and neither is a spec for what it lacks now."""
    return unreadable(inventory, [stored.spec.address]) or without_sriov(stored, inventory)


def without_sriov(stored: SRIOVGPUDevice, inventory: Inventory) -> bool:
    """Whether functions are desired of a GPU that is there, and cannot have any as it is set up."""
    return stored.spec.enabled and any(
        (function.vendor, function.physfn, function.sriov_gpu) == (NVIDIA, None, False)
        and function.is_gpu
        and str(function.address) == stored.spec.address
        for function in inventory.functions
    )
