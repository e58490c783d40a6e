"""Devices as admission keeps them: the parts that rules read, and what is equal only once.

A cluster of a thousand nodes has more than a hundred thousand PCIDevices. Most of what each says is
said by its neighbours too, and some of it no rule needs. What is left out reads as if it had
never been said; the attributes are those of the whole objects, so a rule need not know the
difference. When a condition last changed is left out, because it makes equal conditions differ.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import msgspec

from laneway.api import (
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    decode,
)
from laneway.core import keys
from laneway.kube.resource import served
from laneway.kube.sharing import NOTHING, mapping, one, timeless

_KEPT_LABELS = (keys.LABEL_PARENT_GPU, keys.LABEL_PARENT_NETWORK_DEVICE)


def _metadata(meta: ObjectMeta) -> ObjectMeta:
    labels = tuple(
        (key, sys.intern(meta.labels[key])) for key in _KEPT_LABELS if key in meta.labels
    )
    return ObjectMeta(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        deletion_timestamp=meta.deletion_timestamp,
        labels=mapping(labels),
        annotations=NOTHING,
        finalizers=(),
        owner_references=(),
    )


def _pci_device(_: type[PCIDevice], raw: bytes | msgspec.Raw) -> PCIDevice:
    whole = decode(PCIDevice, raw)
    status = whole.status
    text = sys.intern
    return PCIDevice(
        metadata=_metadata(whole.metadata),
        spec=one(whole.spec),
        status=PCIDeviceStatus(
            address=text(status.address),
            vendor_id=text(status.vendor_id),
            device_id=text(status.device_id),
            class_id=text(status.class_id),
            subsystem_device_id=text(status.subsystem_device_id),
            iommu_group=text(status.iommu_group),
            node_name=text(status.node_name),
            resource_name=text(status.resource_name),
            description=text(status.description),
            kernel_driver_in_use=text(status.kernel_driver_in_use),
            physical_function=text(status.physical_function),
            sriov=status.sriov and one(status.sriov),
            bars=one(tuple(status.bars)),
            boot_vga=status.boot_vga,
            claimable=status.claimable,
            critical=one(tuple(status.critical)),
            conditions=timeless(status.conditions),
            iommu_group_members=(),
            reset_methods=(),
        ),
    )


def _vgpu(_: type[VGPUDevice], raw: bytes | msgspec.Raw) -> VGPUDevice:
    whole = decode(VGPUDevice, raw)
    spec, status = whole.spec, whole.status
    text = sys.intern
    return VGPUDevice(
        metadata=_metadata(whole.metadata),
        spec=VGPUDeviceSpec(
            address=text(spec.address),
            node_name=text(spec.node_name),
            parent_gpu_device_address=text(spec.parent_gpu_device_address),
            enabled=spec.enabled,
            vgpu_type_name=text(spec.vgpu_type_name),
        ),
        status=VGPUDeviceStatus(
            vgpu_status=text(status.vgpu_status),
            configure_vgpu_type_name=text(status.configure_vgpu_type_name),
            available_types=mapping(tuple(status.available_types.items())),
            framework=text(status.framework),
            resource_name=text(status.resource_name),
            allocation=status.allocation,
            placement=status.placement,
            gpu_instance=status.gpu_instance,
            observed_generation=status.observed_generation,
            conditions=timeless(status.conditions),
        ),
    )


PCI_DEVICES = replace(served(PCIDevice), decoder=_pci_device)
VGPUS = replace(served(VGPUDevice), decoder=_vgpu)
