"""What rules may look at: the cluster as watches report it.

The stores are the informers' own; a test fills them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from laneway.admission.capv.known import KnownHost, KnownReservation
from laneway.api import (
    CoreNode,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VCenter,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers.ledger.objects import Pod
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.core.packing.policy import Score
from laneway.kube.capk import KubevirtCluster, KubevirtMachineTemplate
from laneway.kube.capv import (
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereFailureDomain,
    VSphereMachineTemplate,
)
from laneway.kube.clusterapi import KubeadmControlPlane, Machine, MachineDeployment, MachineSet
from laneway.kube.kubevirt import KubeVirt, VirtualMachine, VirtualMachineInstance
from laneway.kube.store import Store

MEDIATED = "mdev"
"""`VGPUDevice.status.framework` of one that is a mediated device."""
VENDOR_VFIO = "vendor-vfio"
"""The same of one that is a PCI function."""
FRAMEWORKS = (MEDIATED, VENDOR_VFIO, "")
"""How a vGPU can be made; empty while not known."""

NODE = "node"
"""Index of devices by the node that they are on."""
RESOURCE = "resource"
"""Index of devices by the resource name that they are requested by."""
FRAMEWORK = "framework"
"""Index of VGPUDevices by resource name and framework, of those in `FRAMEWORKS`: tens of thousands
may go by one resource, and whether they are all made alike is asked of every VM."""
GPU_NODE = "GPU node"
"""Index of pods by the node whose GPUs they have as containers have them."""
GROUP = "group"
"""Index of PCIDevices by node and IOMMU group; those without a group are not in it."""
PARENT = "parent"
"""Index of PCIDevices and VGPUDevices by the name of the SRIOVGPUDevice that they belong to."""
COMING = "coming"
"""Index of claims by whether it is a matter of moments until VMs can have their devices; holds
those alone of which that is so."""
DEVICE_NAME = "device name"
"""Index of VMs by the names (`hostDevices[].name`, `gpus[].name`, and those in the
allocation annotation) of the devices that they speak of."""

CostsOf = Callable[["World", Ledger, Mapping[str, int], Consumer | None], Mapping[str, Score]]
"""Of vGPUs by resource and number, for a VM for which some may be kept (`NodeCosts.of`)."""


@dataclass(frozen=True)
class World:
    """The objects, and what follows from them."""

    nodes: Store[CoreNode] = field(default_factory=Store)
    pci_devices: Store[PCIDevice] = field(default_factory=Store)
    claims: Store[PCIDeviceClaim] = field(default_factory=Store)
    cards: Store[SRIOVNetworkDevice] = field(default_factory=Store)
    gpus: Store[SRIOVGPUDevice] = field(default_factory=Store)
    vgpus: Store[VGPUDevice] = field(default_factory=Store)
    migs: Store[MigConfiguration] = field(default_factory=Store)
    layouts: Store[VGPULayout] = field(default_factory=Store)
    usb_devices: Store[USBDevice] = field(default_factory=Store)
    usb_claims: Store[USBDeviceClaim] = field(default_factory=Store)
    vms: Store[VirtualMachine] = field(default_factory=Store)
    instances: Store[VirtualMachineInstance] = field(default_factory=Store)
    pods: Store[Pod] = field(default_factory=Store)
    installations: Store[KubeVirt] = field(default_factory=Store)
    """Of KubeVirt; what one can, `features_of` says."""
    vcenters: Store[VCenter] = field(default_factory=Store)
    vsphere_hosts: Store[KnownHost] = field(default_factory=Store)
    vsphere_reservations: Store[KnownReservation] = field(default_factory=Store)
    vsphere_templates: Store[VSphereMachineTemplate] = field(default_factory=Store)
    vsphere_clusters: Store[VSphereCluster] = field(default_factory=Store)
    vsphere_zones: Store[VSphereDeploymentZone] = field(default_factory=Store)
    vsphere_domains: Store[VSphereFailureDomain] = field(default_factory=Store)
    kubevirt_templates: Store[KubevirtMachineTemplate] = field(default_factory=Store)
    kubevirt_clusters: Store[KubevirtCluster] = field(default_factory=Store)
    cluster_machines: Store[Machine] = field(default_factory=Store)
    cluster_sets: Store[MachineSet] = field(default_factory=Store)
    cluster_deployments: Store[MachineDeployment] = field(default_factory=Store)
    cluster_control_planes: Store[KubeadmControlPlane] = field(default_factory=Store)
    """VMs of Cluster API, and their sets."""
    vsphere_refuses: bool = False
    """Whether VMs are refused for which their vCenter has no devices, or only warned of."""
    ledger: Callable[[], Ledger | None] = lambda: None
    """The holders of devices and what is free, as of now; None while that is not known."""
    node_costs: CostsOf | None = None
    """What the vGPUs of a pod would cost by node; None: no node is preferred for a pod."""
    trusted: frozenset[str] = frozenset()
    """Usernames of Laneway's own agent and manager, who keep objects in step with hardware."""
