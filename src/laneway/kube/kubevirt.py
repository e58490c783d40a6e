"""KubeVirt's objects, as far as Laneway reads them.

Only devices and what decides about running are decoded; a VM has hundreds of other
fields, all of them its user's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import Condition, ObjectMeta
from laneway.core.permitted import List, Lists
from laneway.kube.resource import Resource

LABEL_VM = "vm.kubevirt.io/name"
"""On a virt-launcher pod: the hostname of its guest, which can differ from the VM's name."""
ANNOTATION_DOMAIN = "kubevirt.io/domain"
"""On a virt-launcher pod: the name of the VirtualMachineInstance."""
LABEL_CREATED_BY = "kubevirt.io/created-by"
"""On a virt-launcher pod: uid of the VirtualMachineInstance."""
ANNOTATION_ADMITTED = "devices.harvesterhci.io/laneway-admitted"
"""On a VirtualMachine: a hash of the devices that admission has judged. Not of Harvester."""
GATE_RESERVED_OVERHEAD = "ReservedOverheadMemlock"
"""The gate without which KubeVirt refuses `memory.reservedOverhead`."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A part of an object of KubeVirt's."""


Quantity = str | int | float
"""An amount as Kubernetes writes it, `4Gi`, or a plain number."""


class RamFB(_Part, frozen=True, kw_only=True):
    """The framebuffer of a display until its driver has loaded."""

    enabled: bool | None = None


class Display(_Part, frozen=True, kw_only=True):
    """A display of a vGPU; all of it is on unless it is said to be off."""

    enabled: bool | None = None
    ram_fb: RamFB | None = msgspec.field(default=None, name="ramFB")


class VirtualGpuOptions(_Part, frozen=True, kw_only=True):
    """What only an entry of `gpus` can have."""

    display: Display | None = None


class DeviceRequest(_Part, frozen=True, kw_only=True):
    """An entry of `hostDevices` or `gpus`."""

    name: str = ""
    device_name: str = ""
    """The resource; empty where the device comes from a resource claim (DRA)."""
    claim_name: str = ""
    request_name: str = ""
    virtual_gpu_options: VirtualGpuOptions | None = msgspec.field(
        default=None, name="virtualGPUOptions"
    )


class Devices(_Part, frozen=True, kw_only=True):
    """The devices of a domain that are not virtual."""

    host_devices: Sequence[DeviceRequest] = ()
    gpus: Sequence[DeviceRequest] = ()

    @property
    def all(self) -> tuple[DeviceRequest, ...]:
        """The entries of both lists."""
        return (*self.host_devices, *self.gpus)


class Memory(_Part, frozen=True, kw_only=True):
    """What the guest sees of memory."""

    guest: Quantity = ""


class Cpu(_Part, frozen=True, kw_only=True):
    """The virtual processors, as factors; one that is not given counts as 1."""

    cores: int = 0
    sockets: int = 0
    threads: int = 0

    @property
    def count(self) -> int:
        return max(self.cores, 1) * max(self.sockets, 1) * max(self.threads, 1)


class DomainResources(_Part, frozen=True, kw_only=True):
    """What the scheduler is asked."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}


class Domain(_Part, frozen=True, kw_only=True):
    """The VM itself."""

    devices: Devices = Devices()
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    resources: DomainResources = DomainResources()


class InstanceSpec(_Part, frozen=True, kw_only=True):
    """What a VM instance is to be."""

    domain: Domain = Domain()
    node_selector: Mapping[str, str] = {}
    eviction_strategy: str = ""


class Template(_Part, frozen=True, kw_only=True):
    """What instances of a VM look like."""

    spec: InstanceSpec = InstanceSpec()


class Matcher(_Part, frozen=True, kw_only=True):
    """What fills in a part of a VM when it starts."""

    name: str = ""


class VirtualMachineSpec(_Part, frozen=True, kw_only=True):
    """The desired state; either `running` or `run_strategy` says whether it runs."""

    running: bool | None = None
    run_strategy: str = ""
    instancetype: Matcher = Matcher()
    preference: Matcher = Matcher()
    template: Template = Template()


class VirtualMachineStatus(_Part, frozen=True, kw_only=True):
    """KubeVirt's word on it."""

    created: bool = False
    ready: bool = False
    printable_status: str = ""
    conditions: Sequence[Condition] = ()


class VirtualMachine(_Part, frozen=True, kw_only=True):
    """A VM, running or stopped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VirtualMachineSpec = VirtualMachineSpec()
    status: VirtualMachineStatus = VirtualMachineStatus()


class InstanceStatus(_Part, frozen=True, kw_only=True):
    """Where an instance is and how far."""

    phase: str = ""
    node_name: str = ""
    conditions: Sequence[Condition] = ()


class VirtualMachineInstance(_Part, frozen=True, kw_only=True):
    """A VM that runs, or is about to."""

    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceSpec = InstanceSpec()
    status: InstanceStatus = InstanceStatus()


class MigrationSpec(_Part, frozen=True, kw_only=True):
    """What is to be migrated."""

    vmi_name: str = ""
    added_node_selector: Mapping[str, str] = {}
    """Narrows down the nodes that the VM's own selector allows."""


class MigrationState(_Part, frozen=True, kw_only=True):
    """The last migration of an instance, on the instance and on the migration itself."""

    migration_uid: str = ""
    source_node: str = ""
    source_pod: str = ""
    target_node: str = ""
    target_pod: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    completed: bool = False
    """It is over, well or not."""
    failed: bool = False
    failure_reason: str = ""


class PhaseTransition(_Part, frozen=True, kw_only=True):
    """When a phase began."""

    phase: str = ""
    phase_transition_timestamp: str | None = None


class MigrationStatus(_Part, frozen=True, kw_only=True):
    """How far it is."""

    phase: str = ""
    phase_transition_timestamps: Sequence[PhaseTransition] = ()
    migration_state: MigrationState | None = None
    """Once it is over."""


class VirtualMachineInstanceMigration(_Part, frozen=True, kw_only=True):
    """A VM that goes to another node while it runs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MigrationSpec = MigrationSpec()
    status: MigrationStatus = MigrationStatus()


class LabelSelector(_Part, frozen=True, kw_only=True):
    """Whom a pool counts as its own."""

    match_labels: Mapping[str, str] = {}


class PoolTemplate(_Part, frozen=True, kw_only=True):
    """What the VMs of a pool look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VirtualMachineSpec = VirtualMachineSpec()


class PoolSpec(_Part, frozen=True, kw_only=True):
    """How many of them there are to be."""

    replicas: int | None = None
    paused: bool = False
    selector: LabelSelector = LabelSelector()
    virtual_machine_template: PoolTemplate = PoolTemplate()


class VirtualMachinePool(_Part, frozen=True, kw_only=True):
    """Virtual VMs that are all alike."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PoolSpec = PoolSpec()


class InstanceTemplate(Template, frozen=True, kw_only=True):
    """What the instances of a replica set look like."""

    metadata: ObjectMeta = ObjectMeta()


class ReplicaSetSpec(_Part, frozen=True, kw_only=True):
    """How many instances there are to be, and what they look like."""

    replicas: int | None = None
    paused: bool = False
    selector: LabelSelector = LabelSelector()
    template: InstanceTemplate = InstanceTemplate()


class VirtualMachineInstanceReplicaSet(_Part, frozen=True, kw_only=True):
    """Instances that are all alike."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class PermittedHostDevices(_Part, frozen=True, kw_only=True):
    """What VMs may request at all. Its entries belong to many and stay as they are."""

    pci_host_devices: Sequence[Any] = ()
    mediated_devices: Sequence[Any] = ()
    usb: Sequence[Any] = ()


class DeveloperConfiguration(_Part, frozen=True, kw_only=True):
    """What is switched on although it is not for everybody."""

    feature_gates: Sequence[str] = ()
    disabled_feature_gates: Sequence[str] = ()


class KubeVirtConfiguration(_Part, frozen=True, kw_only=True):
    """Settings of a KubeVirt installation."""

    developer_configuration: DeveloperConfiguration = DeveloperConfiguration()
    eviction_strategy: str = ""
    """Of VMs that name none."""

    permitted_host_devices: PermittedHostDevices | None = None
    """None: nothing says what is permitted, and KubeVirt does not look."""


class KubeVirtSpec(_Part, frozen=True, kw_only=True):
    """The installation as it is desired."""

    configuration: KubeVirtConfiguration = KubeVirtConfiguration()


class KubeVirt(_Part, frozen=True, kw_only=True):
    """One installation of KubeVirt."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KubeVirtSpec = KubeVirtSpec()


GROUP = "kubevirt.io"

VIRTUAL_MACHINES = Resource(
    GROUP, "v1", "virtualmachines", True, VirtualMachine, "VirtualMachine", optional=True
)
INSTANCES = Resource(
    GROUP,
    "v1",
    "virtualmachineinstances",
    True,
    VirtualMachineInstance,
    "VirtualMachineInstance",
    optional=True,
)
MIGRATIONS = Resource(
    GROUP,
    "v1",
    "virtualmachineinstancemigrations",
    True,
    VirtualMachineInstanceMigration,
    "VirtualMachineInstanceMigration",
    optional=True,
)
KUBEVIRTS = Resource(GROUP, "v1", "kubevirts", True, KubeVirt, "KubeVirt", optional=True)


class Features(msgspec.Struct, frozen=True):
    """What the KubeVirt of a cluster can, of what it need not."""

    reserved_overhead: bool = False
    """`memory.reservedOverhead` may be set."""


def features_of(installations: Iterable[KubeVirt]) -> Features:
    """What the installation can; nothing while there is none, or more than one."""
    found = list(installations)
    if len(found) != 1:
        return Features()
    gates = found[0].spec.configuration.developer_configuration
    on = set(gates.feature_gates) - set(gates.disabled_feature_gates)
    return Features(reserved_overhead=GATE_RESERVED_OVERHEAD in on)


def vm_of(pod: ObjectMeta) -> str:
    """The VM that a pod runs; empty for a pod that runs none."""
    if LABEL_CREATED_BY not in pod.labels:
        return ""
    for one in pod.owner_references:
        if one.controller and one.kind == INSTANCES.kind:
            return one.name
    return pod.annotations.get(ANNOTATION_DOMAIN) or pod.labels.get(LABEL_VM, "")


def mark_of(devices: Devices) -> str:
    """What tells these devices from others, as `ANNOTATION_ADMITTED` has it; empty for none."""
    if not devices.all:
        return ""
    asked = [
        [(one.name, one.device_name, one.claim_name, one.request_name) for one in part]
        for part in (devices.host_devices, devices.gpus)
    ]
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:16]


def lists_of(kubevirt: KubeVirt) -> Lists:
    """The lists of permitted devices as they are."""
    found = kubevirt.spec.configuration.permitted_host_devices or PermittedHostDevices()
    return {
        List.PCI: found.pci_host_devices,
        List.MDEV: found.mediated_devices,
        List.USB: found.usb,
    }
