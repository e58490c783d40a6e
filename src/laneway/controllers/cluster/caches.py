"""What the manager knows of the cluster: one cache of each kind, for all of its parts.

Caches are kept by managers that stand by as well, so that the next leader begins where the last one
ended. Objects of which there are many are decoded only as far as they are read, and what differs in
nothing of that is no change: nodes report every ten seconds, and KubeVirt on each guest.

No controller may wait for the kinds of KubeVirt, which a cluster need not have; a cache that has
never been complete says nothing about what does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import msgspec

from laneway.api import (
    Allocation,
    Condition,
    CoreNode,
    DeviceNode,
    HostPolicy,
    HostPreparation,
    ObjectMeta,
    PCIDeviceClaim,
    Setting,
    USBDeviceClaim,
    VGPUDevice,
)
from laneway.controllers.cluster import light
from laneway.controllers.ledger.objects import PODS, Pod
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import (
    KUBEVIRTS,
    KubeVirt,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.nodes import node
from laneway.kube.resource import Key, KubeObject, Resource, served
from laneway.kube.vms import INSTANCES, VIRTUAL_MACHINES


class _Light(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A part of an object."""


class VgpuSpec(_Light, frozen=True, kw_only=True, gc=False):
    """The desired state of a VGPUDevice."""

    node_name: str = ""
    enabled: bool = False
    vgpu_type_name: str = msgspec.field(default="", name="vGPUTypeName")


class VgpuStatus(_Light, frozen=True, kw_only=True, gc=False):
    """What it carries, without what it could carry."""

    vgpu_status: str = msgspec.field(default="", name="vGPUStatus")
    configure_vgpu_type_name: str = msgspec.field(default="", name="configureVGPUTypeName")
    framework: str = ""
    resource_name: str = ""
    allocation: Allocation | None = None
    conditions: Sequence[Condition] = ()


class Vgpu(_Light, frozen=True, kw_only=True, gc=False):
    """A VGPUDevice; a cluster has thousands, and most of each is lists of profiles."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VgpuSpec = VgpuSpec()
    status: VgpuStatus = VgpuStatus()


_VGPU = served(VGPUDevice)
VGPUS = Resource(_VGPU.group, _VGPU.version, _VGPU.plural, _VGPU.namespaced, Vgpu, _VGPU.kind)

_LIGHT_VGPUS = replace(VGPUS, decoder=light.vgpu)
_LIGHT_CLAIMS = replace(served(PCIDeviceClaim), decoder=light.claim)
SETTINGS = replace(served(Setting), optional=True)

VM = "machine"
"""The index of devices by the VM that has them."""


NODE = "node"
"""The index of instances by the node that they run on."""


def node_of_instance(instance: VirtualMachineInstance) -> list[str]:
    """The node that a VM runs on, if it runs."""
    return [instance.status.node_name] if instance.status.node_name else []


class Device(Protocol):
    """An object whose device a VM or pod can have."""

    @property
    def status(self) -> Holding: ...


class Holding(Protocol):
    """Its status."""

    @property
    def allocation(self) -> Allocation | None: ...


def vms_of(device: Device) -> list[Key]:
    """The VM that has a device, if one has."""
    allocation = device.status.allocation
    if allocation is None or not allocation.virtual_machine:
        return []
    return [Key(allocation.namespace, allocation.virtual_machine)]


@dataclass(frozen=True)
class Caches:
    """An informer of each kind."""

    nodes: Informer[CoreNode]
    device_nodes: Informer[DeviceNode]
    claims: Informer[PCIDeviceClaim]
    vgpus: Informer[Vgpu]
    usb_claims: Informer[USBDeviceClaim]
    installations: Informer[KubeVirt]
    vms: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    policies: Informer[HostPolicy]
    preparations: Informer[HostPreparation]
    settings: Informer[Setting]

    @classmethod
    def of(cls, client: Client) -> Caches:
        """Caches that are filled once their informers run."""
        return cls(
            nodes=Informer(client, replace(served(CoreNode), decoder=node), quiet=True),
            device_nodes=Informer(client, served(DeviceNode)),
            claims=Informer(client, _LIGHT_CLAIMS, indexers={VM: vms_of}, quiet=True),
            vgpus=Informer(client, _LIGHT_VGPUS, indexers={VM: vms_of}, quiet=True),
            usb_claims=Informer(client, served(USBDeviceClaim), indexers={VM: vms_of}, quiet=True),
            installations=Informer(client, KUBEVIRTS),
            vms=Informer(client, VIRTUAL_MACHINES, quiet=True),
            instances=Informer(client, INSTANCES, indexers={NODE: node_of_instance}, quiet=True),
            pods=Informer(client, PODS, quiet=True),
            policies=Informer(client, served(HostPolicy)),
            preparations=Informer(client, served(HostPreparation)),
            settings=Informer(client, SETTINGS),
        )

    @property
    def all(self) -> Mapping[str, Informer[KubeObject]]:
        """Every informer by a name for people."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
