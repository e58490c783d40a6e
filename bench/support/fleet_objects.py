"""Laneway's objects of a fleet in use, as agents write them."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from laneway.api import HostPreparationSpec
from laneway.controllers.preparation.settings import digest
from laneway.core import allocation, keys, names
from laneway.core.allocation import Held, Part
from laneway.core.pci import PciAddress
from support.gpu_fleet import API, TIME, Object, card, device

MDEV, VFIO = "mdev", "vendor-vfio"
NAMESPACE = "default"
POLICY = "gpu-hosts"
"""The HostPolicy of all nodes."""
LABELLED = "canary"
"""The HostPolicy of the nodes with the label of this name."""
L40S = {"vendorId": "10de", "deviceId": "26b9"}


class Vgpu(NamedTuple):
    """One vGPU."""

    name: str
    node: str
    gpu: str
    """Its address."""
    address: str
    framework: str
    profile: str

    @property
    def resource(self) -> str:
        return names.vgpu_resource_name(self.profile)

    @property
    def held(self) -> Held:
        """As the record of a VM has it."""
        part = Part.GPUS if self.framework == MDEV else Part.HOST_DEVICES
        return Held(part, self.resource, self.name)


class Vm(NamedTuple):
    """A VM and the vGPUs that it has, or keeps while it is stopped."""

    name: str
    runs: bool
    vgpus: tuple[Vgpu, ...]

    @property
    def node(self) -> str:
        return self.vgpus[0].node

    @property
    def pod(self) -> str:
        return f"virt-launcher-{self.name}"

    @property
    def record(self) -> str:
        return allocation.text_of(one.held for one in self.vgpus)


def condition(kind: str, reason: str, *, status: str = "True", message: str = "") -> Object:
    """As KubeVirt and kubelets write it."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": TIME,
    }


def _answer(kind: str, reason: str, *, message: str = "") -> Object:
    """As an agent writes it: to the first generation of an object."""
    return condition(kind, reason, message=message) | {"observedGeneration": 1}


def holder(vm: Vm | None) -> Object | None:
    """What an agent reports of the pod that has a device."""
    if vm is None:
        return None
    return {"namespace": NAMESPACE, "pod": vm.pod, "virtualMachine": vm.name}


def vgpu(one: Vgpu, owner: Vm | None) -> Object:
    """A VGPUDevice with its vGPU."""
    spec = {
        "address": one.address,
        "nodeName": one.node,
        "parentGPUDeviceAddress": one.gpu,
        "enabled": True,
        "vGPUTypeName": one.profile,
    }
    made = device("VGPUDevice", one.name, one.node, spec, vgpu_status(one, one.profile))
    made["metadata"]["labels"][keys.LABEL_PARENT_GPU] = _name_of_gpu(one)
    if owner is not None:
        made["status"]["allocation"] = holder(owner)
    return made


def vgpu_status(one: Vgpu, profile: str) -> Object:
    """What an agent reports once a vGPU is made and advertised; without a profile there is none."""
    if not profile:
        return {
            "vGPUStatus": "",
            "configureVGPUTypeName": "",
            "resourceName": "",
            "uuid": "",
            "framework": one.framework,
            "conditions": [_answer("Ready", "Disabled")],
        }
    return {
        "vGPUStatus": "vGPUConfigured",
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, one.name)),
        "configureVGPUTypeName": profile,
        "availableTypes": {profile: "700"},
        "framework": one.framework,
        "resourceName": names.vgpu_resource_name(profile),
        "owner": "VGPUDevices",
        "conditions": [
            _answer("Ready", "Enabled", message="The vGPU is configured."),
            _answer("Advertised", "Advertised"),
        ],
    }


def function(one: Vgpu) -> Object:
    """The PCIDevice of the virtual function that a vGPU is on."""
    group = str(int(one.address[5:7], 16) * 16 + int(one.address[-1], 16))
    status = card(one.node, one.address) | {
        "physicalFunction": one.gpu,
        "iommuGroup": group,
        "iommuGroupMembers": [one.address],
    }
    made = device("PCIDevice", one.name, one.node, {}, status)
    made["metadata"]["labels"][keys.LABEL_PARENT_GPU] = _name_of_gpu(one)
    return made


def _name_of_gpu(one: Vgpu) -> str:
    return names.pci_object_name(one.node, PciAddress.parse(one.gpu))


def claim(one: Vgpu, owner: Vm | None) -> Object:
    """The claim of a vGPU of the vendor's VFIO framework."""
    spec = {"address": one.address, "nodeName": one.node, "userName": "admin"}
    made = device("PCIDeviceClaim", one.name, one.node, spec, claim_status(one.resource, L40S))
    made["metadata"]["finalizers"] = [keys.FINALIZER_PCI_CLAIM]
    if owner is not None:
        made["status"]["allocation"] = holder(owner)
    return made


def claim_status(resource: str, ids: Object) -> Object:
    """What an agent reports once a device is claimed."""
    return {
        "kernelDriverToUnbind": "nvidia",
        "passthroughEnabled": True,
        "resourceName": resource,
        **ids,
        "iommuGroup": "42",
        "observedGeneration": 1,
        "conditions": [
            _answer("Ready", "Claimed", message="VMs can use the device."),
            _answer("Bound", "Bound"),
            _answer("Advertised", "Advertised"),
        ],
    }


def policy(name: str, label: str) -> Object:
    """A HostPolicy of all nodes, or of those with a label."""
    spec: Object = {"iommu": True, "vfioAtBoot": True}
    if label:
        spec["nodeSelector"] = {"matchLabels": {label: "true"}}
    return {
        "apiVersion": f"{API}/v1beta1",
        "kind": "HostPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def preparation(name: str) -> Object:
    """Of a node that has everything which the HostPolicy of all nodes requests."""
    spec = {"policies": [POLICY], "paused": False, "iommu": True, "vfioAtBoot": True}
    status = {
        "stage": "Ready",
        "settings": digest(HostPreparationSpec(iommu=True, vfio_at_boot=True)),
        "bootID": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
        "bootLoader": "grub",
        "requirements": [{"name": one, "state": "Met"} for one in ("Iommu", "VfioModules")],
    }
    return device("HostPreparation", name, name, spec, status)


def managed(obj: Object) -> list[Object]:
    """The `managedFields` of an object that one client made and another reports on."""
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": obj["apiVersion"],
            "time": TIME,
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:{part}": _fields(obj[part])},
        }
        for manager, part in (("kubectl", "spec"), ("laneway-agent", "status"))
        if part in obj
    ]


def _fields(value: Object) -> Object:
    return {
        f"f:{name}": _fields(inner) if isinstance(inner, dict) else {}
        for name, inner in value.items()
    }
