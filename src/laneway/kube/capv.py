"""Objects of Cluster API's provider for vSphere, as far as Laneway reads them (`v1beta2`).

Items of `pciDevices` are kept as they are written: what may be said there, and in which spellings,
is decided in one place (`core.vsphere.spelling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import field

from laneway.api import Condition, ObjectMeta
from laneway.kube.resource import Resource

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1beta2"


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class NetworkDevice(_Part, frozen=True, kw_only=True):
    """A network card; the rest of its fields are handed on as they are."""

    network_name: str = ""
    mac_addr: str = ""
    device_name: str = ""


class Network(_Part, frozen=True, kw_only=True):
    """The network cards."""

    devices: Sequence[NetworkDevice] = ()


class CloneSpec(_Part, frozen=True, kw_only=True):
    """What VSphereMachine and VSphereVM have in common."""

    server: str = ""
    thumbprint: str = ""
    datacenter: str = ""
    template: str = ""
    folder: str = ""
    resource_pool: str = ""
    datastore: str = ""
    clone_mode: str = ""
    snapshot: str = ""
    num_cpus: int = field(default=0, name="numCPUs")
    num_cores_per_socket: int = 0
    memory_mib: int = field(default=0, name="memoryMiB")
    disk_gib: int = field(default=0, name="diskGiB")
    hardware_version: str = ""
    nested_hv: bool = field(default=False, name="nestedHV")
    custom_vmx_keys: Mapping[str, str] = field(default_factory=dict, name="customVMXKeys")
    network: Network = Network()
    power_off_mode: str = ""
    guest_soft_power_off_timeout_seconds: int = 0
    pci_devices: Sequence[Any] = ()
    pcidevices: Sequence[Any] = field(default=(), name="pcidevices")
    """The proposal's spelling; never released."""
    vgpudevices: Sequence[Any] = field(default=(), name="vgpudevices")
    """The same."""
    peer_to_peer: bool = False
    """Laneway's: the devices are to reach each other without the processor (GPUDirect)."""

    @property
    def cpus(self) -> int:
        """As CAPV makes it: at least two."""
        return max(self.num_cpus, 2)

    @property
    def memory(self) -> int:
        """In MiB; CAPV's of machines that say nothing."""
        return self.memory_mib or 2048


class MachineSpec(CloneSpec, frozen=True, kw_only=True):
    """What is desired of a VSphereMachine."""

    provider_id: str = field(default="", name="providerID")


class VmSpec(CloneSpec, frozen=True, kw_only=True):
    """What is desired of a VSphereVM."""

    bios_uuid: str = field(default="", name="biosUUID")
    bootstrap_ref: Mapping[str, str] = {}


class MachineInitialization(_Part, frozen=True, kw_only=True):
    """What has been done once."""

    provisioned: bool = False


class MachineStatus(_Part, frozen=True, kw_only=True):
    """How far a VSphereMachine is."""

    initialization: MachineInitialization = MachineInitialization()
    addresses: Sequence[Mapping[str, Any]] = ()
    pci_devices: Sequence[Any] = ()
    """Only in the definitions that Laneway ships, here and in a VSphereVM."""
    failure_domain: str = ""
    """The same."""
    conditions: Sequence[Condition] = ()


class VmStatus(_Part, frozen=True, kw_only=True):
    """How far a VSphereVM is."""

    ready: bool = False
    vm_ref: str = ""
    """`VirtualMachine:vm-42`."""
    task_ref: str = ""
    host: str = ""
    retry_after: str = ""
    addresses: Sequence[str] = ()
    pci_devices: Sequence[Any] = ()
    conditions: Sequence[Condition] = ()


class VSphereMachine(_Part, frozen=True, kw_only=True):
    """The infrastructure of a Machine."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class VSphereVM(_Part, frozen=True, kw_only=True):
    """One VM, made for a VSphereMachine."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VmSpec = VmSpec()
    status: VmStatus = VmStatus()


class MachineResource(_Part, frozen=True, kw_only=True):
    """What machines are made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSpec = MachineSpec()


class TemplateSpec(_Part, frozen=True, kw_only=True):
    """What is desired of a template."""

    template: MachineResource = MachineResource()


class TemplateStatus(_Part, frozen=True, kw_only=True):
    """What a machine of a template will have; only in the definitions that Laneway ships."""

    capacity: Mapping[str, str | int] = {}


class VSphereMachineTemplate(_Part, frozen=True, kw_only=True):
    """What VSphereMachines are made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()
    status: TemplateStatus = TemplateStatus()


class IdentityReference(_Part, frozen=True, kw_only=True):
    """Where credentials are."""

    kind: str = ""
    """`Secret` of the same namespace, or `VSphereClusterIdentity`."""
    name: str = ""


class Endpoint(_Part, frozen=True, kw_only=True):
    """Where a control plane answers."""

    host: str = ""
    port: int = 0


class ClusterSpec(_Part, frozen=True, kw_only=True):
    """What is desired of a VSphereCluster."""

    server: str = ""
    thumbprint: str = ""
    identity_ref: IdentityReference | None = None
    control_plane_endpoint: Endpoint = Endpoint()
    failure_domain_selector: Mapping[str, Any] | None = None


class ClusterFailureDomain(_Part, frozen=True, kw_only=True):
    """A failure domain of a cluster."""

    name: str = ""
    """Of its VSphereDeploymentZone."""
    control_plane: bool = False
    """Whether machines of the control plane may be there."""


class ClusterStatus(_Part, frozen=True, kw_only=True):
    """How far a cluster is."""

    failure_domains: Sequence[ClusterFailureDomain] = ()


class VSphereCluster(_Part, frozen=True, kw_only=True):
    """The infrastructure of a Cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()


class ZoneHosts(_Part, frozen=True, kw_only=True):
    """Groups of a vSphere cluster."""

    host_group_name: str = ""
    vm_group_name: str = ""


class Topology(_Part, frozen=True, kw_only=True):
    """What a failure domain is in vCenter."""

    datacenter: str = ""
    compute_cluster: str = ""
    hosts: ZoneHosts | None = None
    datastore: str = ""
    networks: Sequence[str] = ()


class FailureDomainSpec(_Part, frozen=True, kw_only=True):
    """What is said of a failure domain."""

    topology: Topology = Topology()


class VSphereFailureDomain(_Part, frozen=True, kw_only=True):
    """Hosts that fail together."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FailureDomainSpec = FailureDomainSpec()


class PlacementConstraint(_Part, frozen=True, kw_only=True):
    """Where machines go within a failure domain."""

    resource_pool: str = ""
    folder: str = ""


class DeploymentZoneSpec(_Part, frozen=True, kw_only=True):
    """What is said of a deployment zone."""

    server: str = ""
    failure_domain: str = ""
    control_plane: bool | None = None
    placement_constraint: PlacementConstraint = PlacementConstraint()


class VSphereDeploymentZone(_Part, frozen=True, kw_only=True):
    """A failure domain of one vCenter, as machines name it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentZoneSpec = DeploymentZoneSpec()


VSPHERE_MACHINES = Resource(GROUP, VERSION, "vspheremachines", True, VSphereMachine, optional=True)
VSPHERE_TEMPLATES = Resource(
    GROUP, VERSION, "vspheremachinetemplates", True, VSphereMachineTemplate, optional=True
)
VSPHERE_VMS = Resource(GROUP, VERSION, "vspherevms", True, VSphereVM, optional=True)
VSPHERE_CLUSTERS = Resource(GROUP, VERSION, "vsphereclusters", True, VSphereCluster, optional=True)
FAILURE_DOMAINS = Resource(
    GROUP, VERSION, "vspherefailuredomains", False, VSphereFailureDomain, optional=True
)
DEPLOYMENT_ZONES = Resource(
    GROUP, VERSION, "vspheredeploymentzones", False, VSphereDeploymentZone, optional=True
)
