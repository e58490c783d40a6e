"""Objects of Cluster API, as far as Laneway reads them (`v1beta2`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import field

from laneway.api import Condition, ObjectMeta
from laneway.kube.resource import Resource

GROUP = "cluster.x-k8s.io"
CONTROL_PLANE_GROUP = "controlplane.cluster.x-k8s.io"
VERSION = "v1beta2"
LABEL_CLUSTER = "cluster.x-k8s.io/cluster-name"
"""On everything that belongs to a Cluster: its name."""
ANNOTATION_PAUSED = "cluster.x-k8s.io/paused"
"""On a Cluster or Machine: all controllers leave it alone."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object of Cluster API's."""


class Reference(_Part, frozen=True, kw_only=True):
    """An object of the same namespace, by whichever version is served."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Initialization(_Part, frozen=True, kw_only=True):
    """What has been done once."""

    infrastructure_provisioned: bool = False
    bootstrap_data_secret_created: bool = False
    control_plane_initialized: bool = False


class ClusterSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a cluster."""

    paused: bool = False
    infrastructure_ref: Reference = Reference()
    control_plane_endpoint: Mapping[str, Any] = {}


class Status(_Part, frozen=True, kw_only=True):
    """How far an object is."""

    phase: str = ""
    initialization: Initialization = Initialization()
    conditions: Sequence[Condition] = ()


class Cluster(_Part, frozen=True, kw_only=True):
    """A workload cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterSpec = ClusterSpec()
    status: Status = Status()


class Bootstrap(_Part, frozen=True, kw_only=True):
    """Where a machine's user data is."""

    config_ref: Reference = Reference()
    """Of what it is made; empty: it is made by hand."""
    data_secret_name: str | None = None
    """Name of a Secret with `value` and `format`; None: not made yet."""


class MachineSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a machine."""

    cluster_name: str = ""
    bootstrap: Bootstrap = Bootstrap()
    infrastructure_ref: Reference = Reference()
    failure_domain: str = ""
    """Name of a VSphereDeploymentZone; empty: none."""
    version: str = ""
    provider_id: str = field(default="", name="providerID")


class NodeReference(_Part, frozen=True, kw_only=True):
    """A node of the workload cluster."""

    name: str = ""


class Address(_Part, frozen=True, kw_only=True):
    """One address of a machine."""

    type: str = ""
    address: str = ""


class MachineStatus(Status, frozen=True, kw_only=True):
    """How far a machine is."""

    node_ref: NodeReference = NodeReference()
    addresses: Sequence[Address] = ()
    failure_domain: str = ""


class Machine(_Part, frozen=True, kw_only=True):
    """A machine of a workload cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class MachineTemplate(_Part, frozen=True, kw_only=True):
    """What the machines of a set are like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSpec = MachineSpec()


class LabelSelector(_Part, frozen=True, kw_only=True):
    """Which machines belong to a set."""

    match_labels: Mapping[str, str] = {}


class RollingUpdate(_Part, frozen=True, kw_only=True):
    """How many machines more, or fewer, there may be while they are exchanged."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class RolloutStrategy(_Part, frozen=True, kw_only=True):
    """How machines are exchanged."""

    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class Rollout(_Part, frozen=True, kw_only=True):
    """When and how machines are exchanged."""

    strategy: RolloutStrategy = RolloutStrategy()
    after: str = ""
    """Machines that are older than this time are exchanged."""


class Deletion(_Part, frozen=True, kw_only=True):
    """Which machines go first."""

    order: str = ""


class SetSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a MachineSet or a MachineDeployment, without its template."""

    cluster_name: str = ""
    replicas: int | None = None
    paused: bool = False
    selector: LabelSelector = LabelSelector()
    rollout: Rollout = Rollout()
    deletion: Deletion = Deletion()


class MachineSetSpec(SetSpec, frozen=True, kw_only=True):
    """The same, with its template."""

    template: MachineTemplate = MachineTemplate()


class MachineSet(_Part, frozen=True, kw_only=True):
    """Machines that are all alike."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSetSpec = MachineSetSpec()


class MachineDeployment(_Part, frozen=True, kw_only=True):
    """Machines that are all alike, and are exchanged step by step when they are to be different."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSetSpec = MachineSetSpec()


class ControlPlaneMachineSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a machine of a control plane; where it goes, its cluster says."""

    infrastructure_ref: Reference = Reference()


class ControlPlaneMachineTemplate(_Part, frozen=True, kw_only=True):
    """What the machines of a control plane are like."""

    spec: ControlPlaneMachineSpec = ControlPlaneMachineSpec()


class ControlPlaneSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a control plane."""

    replicas: int | None = None
    version: str = ""
    """Of Kubernetes."""
    kubeadm_config_spec: Mapping[str, Any] = {}
    """How kubeadm sets a machine up."""
    machine_template: ControlPlaneMachineTemplate = ControlPlaneMachineTemplate()
    rollout: Rollout = Rollout()


class KubeadmControlPlane(_Part, frozen=True, kw_only=True):
    """The machines that are the control plane of a cluster; of a cluster of one, all of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ControlPlaneSpec = ControlPlaneSpec()


CLUSTERS = Resource(GROUP, VERSION, "clusters", True, Cluster, optional=True)
MACHINES = Resource(GROUP, VERSION, "machines", True, Machine, optional=True)
MACHINE_SETS = Resource(GROUP, VERSION, "machinesets", True, MachineSet, optional=True)
MACHINE_DEPLOYMENTS = Resource(
    GROUP, VERSION, "machinedeployments", True, MachineDeployment, optional=True
)
CONTROL_PLANES = Resource(
    CONTROL_PLANE_GROUP, VERSION, "kubeadmcontrolplanes", True, KubeadmControlPlane, optional=True
)
