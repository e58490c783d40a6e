"""A GPU and its node as far as objects show them, in the form that decisions are made on."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import VGPUDevice
from laneway.core.gpu.modes import GpuInstance, GpuModes, Mode, mode_named
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction, VgpuType
from laneway.core.mig.positions import positions
from laneway.core.mig.profiles import expected_profiles
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.situation import Holder, Situation
from laneway.core.vgpu.profiles import profiles_on
from laneway.views.gpus import Gpu


def situation_of(gpu: Gpu, holders: Mapping[str, str]) -> Situation | None:
    """The node of a GPU as far as the GPU's objects show it; None where they show too little."""
    if gpu.pci is None:
        return None
    try:
        address = PciAddress.parse(gpu.address)
        functions = [PciAddress.parse(one) for one in gpu.device.status.vf_addresses]
        vgpus = [_function(gpu, vgpu) for vgpu in gpu.vgpus]
        held = {PciAddress.parse(one): words for one, words in holders.items()}
    except ValueError:
        return None
    status = gpu.pci.status
    total = status.sriov.total_vfs if status.sriov is not None else len(functions)
    whole = PciFunction(
        address=address,
        vendor=NVIDIA,
        device=status.device_id,
        subsystem_device=status.subsystem_device_id,
        class_code=f"{status.class_id}00",
        driver=status.kernel_driver_in_use,
        iommu_group=int(status.iommu_group) if status.iommu_group.isdecimal() else None,
        vfs=tuple(functions),
        total_vfs=total,
        num_vfs=len(functions),
        sriov_gpu=True,
    )
    parts = [
        PciFunction(address=one, vendor=NVIDIA, device="", class_code="030200", physfn=address)
        for one in functions
    ]
    return Situation(
        node=gpu.node,
        inventory=Inventory(functions=(whole, *parts), vgpus=tuple(vgpus)),
        holders={one: (Holder("process", words),) for one, words in held.items()},
        gpus={address: _modes(gpu)},
        sriov_manage=True,
    )


def _function(gpu: Gpu, vgpu: VGPUDevice) -> VgpuFunction:
    status = vgpu.status
    can = tuple(VgpuType(id_, name) for name, id_ in sorted(status.available_types.items()))
    # The vendor's framework lists only what can be made now, mediated devices list everything.
    known = {kind.name for kind in can}
    as_mdev = status.framework == "mdev"
    others = sorted(set(gpu.device.status.fits) - known) if as_mdev else ()
    has = ConfiguredVgpu(
        "",
        status.configure_vgpu_type_name,
        status.uuid,
        None,
        status.placement,
        status.gpu_instance,
    )
    return VgpuFunction(
        address=PciAddress.parse(vgpu.spec.address),
        parent=PciAddress.parse(gpu.address),
        framework="mdev" if as_mdev else "vendor-vfio",
        supported=(*can, *(VgpuType("", name) for name in others)),
        creatable=can,
        configured=has if status.vgpu_status else None,
    )


def _modes(gpu: Gpu) -> GpuModes:
    mode = mode_named(gpu.device.status.mode)
    device = gpu.pci.status.device_id if gpu.pci is not None else ""
    if gpu.has_mig:
        there = positions(device, gpu.instances) or {}
        found = [
            GpuInstance(number, one.profile, -1, one.start, one.size, compute_instances=1)
            for number, one in there.items()
        ]
        return GpuModes(mig=True, profiles=expected_profiles(device), instances=tuple(found))
    # A board that is new to the catalogue has the benefit of the doubt.
    can_mig = bool(expected_profiles(device)) or not profiles_on(device)
    sizes = {Mode.MIXED_SIZE: True, Mode.SAME_SIZE: False}
    return GpuModes(
        mig=False if can_mig else None, mixed_size=sizes.get(mode) if mode is not None else None
    )
