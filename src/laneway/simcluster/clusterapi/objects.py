"""Cluster API's objects as its own controllers see them; what they only pass on stays JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from laneway.api import Condition, ConditionStatus, ObjectMeta
from laneway.api.vsphere import DeviceStatus
from laneway.core.raw import JsonObject
from laneway.kube import capk
from laneway.kube.capv import GROUP as PROVIDER
from laneway.kube.capv import VERSION as PROVIDER_VERSION
from laneway.kube.capv import MachineInitialization
from laneway.kube.clusterapi import GROUP, VERSION, Address, Cluster, Machine, SetSpec, Status
from laneway.kube.resource import KubeObject, Resource, T

LABEL_DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
LABEL_SET = "cluster.x-k8s.io/set-name"
LABEL_TEMPLATE = "machine-template-hash"
ANNOTATION_DELETE = "cluster.x-k8s.io/delete-machine"
ANNOTATION_FROM = "cluster.x-k8s.io/cloned-from-name"
ANNOTATION_FROM_KIND = "cluster.x-k8s.io/cloned-from-groupkind"
ANNOTATION_NODE_OF = "cluster.x-k8s.io/machine"
"""On a node: its Machine."""
ANNOTATION_NODE_IN = "cluster.x-k8s.io/cluster-namespace"
"""On a node: the namespace of its Machine."""
SECRET_TYPE = "cluster.x-k8s.io/secret"  # noqa: S105 - a type, no secret


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class MachineTemplate(_Part, frozen=True, kw_only=True):
    """What machines are made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}


class MachineSetSpec(SetSpec, frozen=True, kw_only=True):
    """The desired state of a MachineSet or a MachineDeployment."""

    template: MachineTemplate = MachineTemplate()


class SetStatus(Status, frozen=True, kw_only=True):
    """The status of the machines of a set."""

    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    up_to_date_replicas: int | None = None
    selector: str = ""
    observed_generation: int = 0


class MachineSet(_Part, frozen=True, kw_only=True):
    """Machines that are all alike."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSetSpec = MachineSetSpec()
    status: SetStatus = SetStatus()


class MachineDeployment(_Part, frozen=True, kw_only=True):
    """The same, exchanged step by step."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSetSpec = MachineSetSpec()
    status: SetStatus = SetStatus()


Part: TypeAlias = MachineDeployment | MachineSet | Machine
"""What belongs to a Cluster."""


class InfraStatus(_Part, frozen=True, kw_only=True):
    """What the provider says."""

    ready: bool = False
    """Only CAPK's."""
    initialization: MachineInitialization = MachineInitialization()
    addresses: Sequence[Address] = ()
    conditions: Sequence[Condition] = ()
    pci_devices: Sequence[DeviceStatus] = ()
    failure_domain: str = ""


class Infra(_Part, frozen=True, kw_only=True):
    """An object of a provider's: VSphereCluster, VSphereMachine or VSphereMachineTemplate."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}
    status: InfraStatus = InfraStatus()

    @property
    def provisioned(self) -> bool:
        return self.status.initialization.provisioned


class VmStatus(_Part, frozen=True, kw_only=True):
    """What the provider says of a VM; its addresses are plain text, unlike a machine's."""

    pci_devices: Sequence[DeviceStatus] = ()


class Vm(_Part, frozen=True, kw_only=True):
    """A VSphereVM."""

    metadata: ObjectMeta = ObjectMeta()
    status: VmStatus = VmStatus()


class Named(_Part, frozen=True, kw_only=True):
    """Any object, as far as its metadata."""

    metadata: ObjectMeta = ObjectMeta()


def _infra(plural: str, kind: str, version: str = PROVIDER_VERSION) -> Resource[Infra]:
    return Resource(PROVIDER, version, plural, True, Infra, kind)


CLUSTERS = Resource(GROUP, VERSION, "clusters", True, Cluster)
DEPLOYMENTS = Resource(GROUP, VERSION, "machinedeployments", True, MachineDeployment)
SETS = Resource(GROUP, VERSION, "machinesets", True, MachineSet)
MACHINES = Resource(GROUP, VERSION, "machines", True, Machine)
VSPHERE_CLUSTERS = _infra("vsphereclusters", "VSphereCluster")
VSPHERE_MACHINES = _infra("vspheremachines", "VSphereMachine")
VSPHERE_TEMPLATES = _infra("vspheremachinetemplates", "VSphereMachineTemplate")
VSPHERE_VMS = Resource(PROVIDER, PROVIDER_VERSION, "vspherevms", True, Vm, "VSphereVM")
SECRETS = Resource("", "v1", "secrets", True, Named, "Secret")


class Provider(NamedTuple):
    """The kinds of a provider of infrastructure."""

    clusters: Resource[Infra]
    machines: Resource[Infra]
    templates: Resource[Infra]
    joins: bool
    """Whether its machines become nodes of this server, which stands for their own cluster's."""


VSPHERE = Provider(VSPHERE_CLUSTERS, VSPHERE_MACHINES, VSPHERE_TEMPLATES, joins=True)
KUBEVIRT = Provider(
    _infra("kubevirtclusters", "KubevirtCluster", capk.VERSION),
    _infra("kubevirtmachines", "KubevirtMachine", capk.VERSION),
    _infra("kubevirtmachinetemplates", capk.TEMPLATE, capk.VERSION),
    joins=False,
)
"""On this server are the hosts of these machines: as nodes they would be among their own hosts."""


def owner(resource: Resource[KubeObject], meta: ObjectMeta, *, controls: bool = True) -> JsonObject:
    """A reference to the owner of what is made for it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind or resource.type.__name__,
        "name": meta.name,
        "uid": meta.uid,
        **({"controller": True, "blockOwnerDeletion": True} if controls else {}),
    }


def controlled(objects: Iterable[T], uid: str) -> list[T]:
    """Those that one object controls."""
    return [
        one
        for one in objects
        if any(ref.uid == uid and ref.controller for ref in one.metadata.owner_references)
    ]


def condition(kind: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    status: ConditionStatus = "Unknown" if holds is None else "True" if holds else "False"
    return Condition(type=kind, status=status, reason=reason, message=message)
